package cli

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

var (
	// singleGPUType matches a type that stands for one GPU of it. All model names contain a digit, so that a word such as all is not taken for a
	// type.
	singleGPUType = regexp.MustCompile(`^[A-Za-z][^,]*[0-9][^,]*$`)
	// wholeNumber matches a number of GPUs of any size.
	wholeNumber = regexp.MustCompile(`^[0-9]+$`)
	// countByNodes matches the notation of other systems for a number of GPUs on each of several nodes.
	countByNodes = regexp.MustCompile(`^([0-9]+)x([0-9]+)$`)
)

// gpuAndType splits the value of --gpu into the number of GPUs and their type, "" for any type. A value without a type is validated by the job's
// field.
func gpuAndType(value string) (count, model string, err error) {
	model, count, pair := strings.Cut(value, ":")
	switch {
	case !pair && singleGPUType.MatchString(value):
		return "1", value, nil
	case !pair:
		return value, "", nil
	case strings.Contains(model, ","):
		return "", "", usageErrorf("--gpu %s: %s names several types: write --gpu %s --gpu-type %s", value, model, count, model)
	case wholeNumber.MatchString(count) && model != "" && strings.Trim(count, "0") != "":
		return count, model, nil
	}
	return "", "", usageErrorf("--gpu %s: %s", value, wrongPair(model, count))
}

// wrongPair says what is wrong with a type and a number.
func wrongPair(model, count string) phrase.Text {
	nodes := countByNodes.FindStringSubmatch(count)
	switch {
	case model == "":
		return phrase.Textf("the type is missing: write it before the colon, as in A100-80G:2, or the number alone")
	case count == "":
		return phrase.Textf("the number is missing: write it after the colon, as in %s:2", model)
	case nodes != nil:
		return phrase.Textf("%q is no number: for %s GPUs on each of %s nodes write --gpu %s:%s --nodes %s", count, nodes[1], nodes[2], model, nodes[1], nodes[2])
	case wholeNumber.MatchString(model) && !wholeNumber.MatchString(count):
		return phrase.Textf("%q is no number: the type stands first, as in %s:%s", count, count, model)
	}
	return phrase.Textf("%q is no number of GPUs: write TYPE:NUMBER, such as A100-80G:2", count)
}

// splitGPU sets the flags for the GPU count and the GPU type from --gpu.
func (o *runOptions) splitGPU() error {
	value := *o.values["gpu"]
	count, model, err := gpuAndType(value)
	if err != nil || model == "" {
		return err
	}
	if given := *o.values["gpu-type"]; given != "" && given != model {
		return usageErrorf("--gpu %s and --gpu-type %s name different types: leave one of them out, or write --gpu %s", value, given, count)
	}
	*o.values["gpu"], *o.values["gpu-type"] = count, model
	return nil
}

// completeTypes completes the GPU types of nodes.
func completeTypes(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		offers, err := reader.Offers(ctx)
		var types []string
		for _, offer := range offers {
			if offer.GPUType != "" {
				types = append(types, offer.GPUType)
			}
		}
		slices.Sort(types)
		return slices.Compact(types), err
	})
}

// completeCounts completes GPU types; the user appends the number.
func completeCounts(f *Factory) completer {
	types := completeTypes(f)
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if strings.Contains(typed, ":") {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, directive := types(cmd, args, typed)
		for i := range all {
			all[i] += ":"
		}
		return all, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// completePresets completes preset names.
func completePresets(f *Factory) completer {
	return completeNames(f, func(ctx context.Context, reader *inventory.Reader) ([]string, error) {
		texts, err := reader.Presets(ctx)
		var names []string
		for name := range texts {
			names = append(names, name)
		}
		slices.Sort(names)
		return names, err
	})
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/submit"
)

func newDiffCmd(f *Factory) *cobra.Command {
	o := &applyOptions{manifests: manifests{factory: f, mayExist: true}}
	o.dryRun, o.force, o.unsent = dryRunServer, true, true
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Show what apply would change",
		Long: "Show what apply would change, as the API server would store it, and change nothing.\n\n" +
			"The exit code is 0 when nothing differs, 1 when something does, and higher than 1 for an error.",
		Example: "  gpuctl diff -f train.yaml\n  gpuctl diff -f train.yaml || gpuctl apply -f train.yaml",
		Args:    acceptFileArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDiff(cmd.Context(), o) },
	}
	addFilesFlag(cmd, &o.files)
	return cmd
}

// errDiffers ends a diff that found differences. It is not a failure, but its exit code is 1.
var errDiffers = &quietError{errors.New("what the files say differs from what is there")}

// diffError is an error of diff. Its exit code must differ from that of a found difference.
type diffError struct{ err error }

func (e *diffError) Error() string { return e.err.Error() }
func (e *diffError) Unwrap() error { return e.err }

func runDiff(ctx context.Context, o *applyOptions) error {
	differs, err := o.printDiffs(ctx)
	if err != nil {
		return &diffError{err}
	}
	if differs {
		return errDiffers
	}
	return nil
}

func (o *applyOptions) printDiffs(ctx context.Context) (differs bool, err error) {
	creations, err := o.readCreations(ctx)
	if err != nil {
		return false, err
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return false, err
	}
	failed := failures{factory: o.factory}
	for _, c := range creations {
		text, err := o.diffDocument(ctx, writer, c)
		differs = differs || text != ""
		fmt.Fprint(o.factory.IO.Out, paintDiff(text, o.factory.IO.Color))
		if failed.addError(err) {
			break
		}
	}
	return differs, failed.firstError()
}

// diffDocument shows the change of one document. If it cannot be made in place, it says how to make it.
func (o *applyOptions) diffDocument(ctx context.Context, writer *submit.Client, c creation) (string, error) {
	result, err := o.applyDocument(ctx, writer, c)
	var immutable *submit.ImmutableError
	if !errors.As(err, &immutable) {
		return result.Diff, err
	}
	o.factory.IO.printErr("%s cannot be changed in place: apply it with --replace, which starts it over", c)
	return result.Diff, nil
}

// paintDiff colours the lines of a unified diff.
func paintDiff(text string, color bool) string {
	if !color || text == "" {
		return text
	}
	lines := strings.SplitAfter(text, "\n")
	for i, line := range lines {
		line = escapeControls(line)
		switch {
		case strings.HasPrefix(line, "+"):
			lines[i] = colorGreen + strings.TrimSuffix(line, "\n") + colorReset + "\n"
		case strings.HasPrefix(line, "-"):
			lines[i] = colorRed + strings.TrimSuffix(line, "\n") + colorReset + "\n"
		}
	}
	return strings.Join(lines, "")
}

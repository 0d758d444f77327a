package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/submit"
)

// preset is a preset as gpuctl shows it.
type preset struct {
	Name        string                   `json:"name"`
	Description string                   `json:"description,omitempty"`
	Pool        string                   `json:"pool,omitempty"`
	GPU         int64                    `json:"gpu"`
	GPUTypes    []string                 `json:"gpuTypes,omitempty"`
	MIG         []inventory.AskedProfile `json:"mig,omitempty"`
	CPU         *resource.Quantity       `json:"cpu,omitempty"`
	Memory      *resource.Quantity       `json:"memory,omitempty"`
	// Problem says why the preset cannot be used.
	Problem phrase.Text `json:"problem,omitempty"`
}

func newPreset(p jobplan.Preset) preset {
	asked := p.Resources
	out := preset{
		Name: p.Name, Description: p.Description, Pool: asked.Pool, GPU: asked.GPU, GPUTypes: asked.GPUTypes,
		CPU: asked.CPU, Memory: asked.Memory, Problem: p.ProblemText,
	}
	for _, slice := range asked.MIG {
		out.MIG = append(out.MIG, inventory.AskedProfile{Profile: slice.Profile, Count: slice.Count})
	}
	return out
}

func newGetPresetsCmd(f *Factory) *cobra.Command {
	o := &listing[preset]{}
	cmd := &cobra.Command{
		Use:     "presets [NAME]...",
		Aliases: []string{"preset"},
		Short:   "List what administrators have prepared for the resources of jobs",
		Long: "List presets: what administrators have prepared for the resources of jobs. resources.preset of a job names\n" +
			"one, and it fills every field of resources that the job leaves out.",
		Example: "  gpuctl get presets\n  gpuctl create -f train.yaml --set resources.preset=a100-small",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			all, err := f.readPresets(cmd.Context())
			if err != nil {
				return err
			}
			return o.printNamed(all)
		},
	}
	*o = listing[preset]{
		io: f.IO, now: f.Now, noun: "preset",
		columns: func(time.Time) []column[preset] { return presetColumns() },
		name:    func(p preset) string { return p.Name },
		id:      func(p preset) string { return p.Name },
		print:   func(p preset) string { return "preset/" + p.Name },
	}
	o.addListFlags(cmd)
	return cmd
}

// readPresets returns the presets of the cluster, sorted by name.
func (f *Factory) readPresets(ctx context.Context) ([]preset, error) {
	texts, err := f.presetTexts(ctx)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(texts))
	out := make([]preset, min(len(names), jobplan.MaxPresets))
	for i := range out {
		out[i] = newPreset(jobplan.ParsePreset(names[i], texts[names[i]]))
	}
	return out, nil
}

func presetColumns() []column[preset] {
	quantity := func(q *resource.Quantity) string {
		if q == nil {
			return ""
		}
		return q.String()
	}
	return []column[preset]{
		{header: "NAME", value: func(p preset) string { return p.Name }},
		{header: "POOL", value: func(p preset) string { return p.Pool }},
		{header: "GPUS", value: func(p preset) string { return formatNumber(p.GPU) }},
		{header: "GPU-TYPE", value: func(p preset) string {
			return gpuTypesOf(inventory.Job{GPUs: p.GPU, GPUTypes: p.GPUTypes, MIG: p.MIG})
		}},
		{header: "CPU", value: func(p preset) string { return quantity(p.CPU) }},
		{header: "MEMORY", value: func(p preset) string { return quantity(p.Memory) }},
		{header: "DESCRIPTION", text: func(p preset) phrase.Text {
			if len(p.Problem) > 0 {
				return phrase.Textf("cannot be used: %s", p.Problem)
			}
			return phrase.Quote(p.Description)
		}},
	}
}

type setPresetOptions struct {
	changes
	factory *Factory
	remove  bool
}

func newSetPresetCmd(f *Factory) *cobra.Command {
	o := &setPresetOptions{factory: f}
	o.io, o.output = f.IO, newChangeOutput()
	cmd := &cobra.Command{
		Use:   "preset NAME FIELD=VALUE...",
		Short: "Prepare resources that jobs ask for by one name",
		Long: "Prepare resources that jobs ask for by one name, resources.preset. FIELD is one of pool, gpu, gpu-type,\n" +
			"gpu-share, mig, cpu, memory and shm, as a job's resources have them, or description. The preset becomes\n" +
			"exactly what is given: what it had besides is lost, with a warning. Jobs that are there keep what they have.\n" +
			"It is checked before it is written.\n\n" +
			"Presets are of the whole cluster, for administrators to write: ConfigMap gpuctl-presets of kube-system.",
		Example: "  gpuctl set preset a100-small pool=training-pool gpu=1 gpu-type=A100-80G cpu=12 memory=96Gi\n" +
			"  gpuctl set preset slice pool=dev-pool mig=3g.20gb 'description=a slice for notebooks'\n" +
			"  gpuctl set preset a100-small --delete",
		RunE: func(cmd *cobra.Command, args []string) error { return runSetPreset(cmd, o, args) },
	}
	cmd.Flags().BoolVar(&o.remove, "delete", false, "Remove the preset; jobs that were made with it stay")
	addDryRunFlag(cmd, &o.dryRun, dryRunServer)
	o.output.addTo(cmd)
	return cmd
}

func runSetPreset(cmd *cobra.Command, o *setPresetOptions, args []string) error {
	if err := checkDryRun(o.dryRun, dryRunNone, dryRunServer); err != nil {
		return err
	}
	switch {
	case len(args) == 0, len(args) == 1 && !o.remove, len(args) > 1 && o.remove:
		return usageErrorf("%s needs a name, and FIELD=VALUE such as gpu=1, or --delete\nSee '%s --help'", cmd.CommandPath(), cmd.CommandPath())
	}
	if err := checkPresetName(args[0]); err != nil {
		return err
	}
	var text *string
	if !o.remove {
		written, err := o.buildPresetText(cmd.Context(), args[0], args[1:])
		if err != nil {
			return err
		}
		text = &written
	}
	writer, err := o.factory.newWriter()
	if err != nil {
		return err
	}
	action, err := writer.SetPreset(cmd.Context(), args[0], text, o.dryRun == dryRunServer)
	switch {
	case err != nil:
		return err
	case text == nil && action == submit.ActionUnchanged:
		return &notFoundError{what: phrase.Textf("preset %q", args[0])}
	}
	o.recordChange(change{Kind: "preset", Name: args[0], Action: action})
	return o.printChanges()
}

// buildPresetText builds the text of a preset and checks that jobs can use it.
func (o *setPresetOptions) buildPresetText(ctx context.Context, name string, fields []string) (string, error) {
	var text strings.Builder
	for _, field := range fields {
		key, value, ok := strings.Cut(field, "=")
		if !ok || strings.ContainsAny(field, "\n\r") {
			return "", usageErrorf("%s: write FIELD=VALUE in one line, such as gpu=1", field)
		}
		if key == "description" {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&text, "%s: %s\n", key, value)
	}
	checked := jobplan.ParsePreset(name, text.String())
	if checked.Problem != "" {
		return "", usageErrorf("preset %s: %s; nothing was done", name, checked.ProblemText)
	}
	reader, err := o.factory.newReader()
	if err != nil {
		return "", err
	}
	o.warnLostFields(ctx, reader, checked)
	offers, err := reader.Offers(ctx)
	if err != nil || len(offers) == 0 { // this is only a warning
		return text.String(), nil //nolint:nilerr // a user who may not list nodes is not warned
	}
	if why := diagnosis.ExplainMisfit(&checked.Resources, offers); len(why) > 0 {
		o.io.printErr("warning: a job of this preset would wait for nodes that are not there: %s", why)
	}
	return text.String(), nil
}

// warnLostFields warns of fields that the current preset of the same name has and the new one lacks. A user who may not read presets gets an error
// when writing them.
func (o *setPresetOptions) warnLostFields(ctx context.Context, reader *inventory.Reader, after jobplan.Preset) {
	texts, err := reader.Presets(ctx)
	before, there := texts[after.Name]
	if err != nil || !there {
		return
	}
	was := jobplan.ParsePreset(after.Name, before)
	if lost := was.LostFields(after); len(lost) > 0 {
		o.io.printErr("warning: preset %s becomes exactly what is given, and loses %s", after.Name, strings.Join(lost, ", "))
	}
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/doctor"
)

func newDoctorCmd(f *Factory) *cobra.Command {
	var format *output
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether the cluster is fit to run jobs, and say what to do where it is not",
		Long: "Check whether the cluster is fit to run jobs: the API server and its clock, your rights, the priority\n" +
			"classes, the scheduler and its fence, the CRDs, the namespaces, nodes and pools, the device plugins, GPUs\n" +
			"that are not healthy, inventories that cannot be read, and labels that look like a slip.\n" +
			"The exit code is 1 when a check failed; a warning is none.",
		Example: "  gpuctl doctor\n  gpuctl doctor -n team-a -o json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), f, format.format) },
	}
	format = describeOutput(cmd)
	return cmd
}

func runDoctor(ctx context.Context, f *Factory, format string) error {
	namespace, err := f.namespace()
	if err != nil {
		return err
	}
	client, err := f.kubernetes()
	if err != nil {
		return err
	}
	facts, err := doctor.Read(ctx, client, namespace, f.Now)
	if err != nil {
		return err
	}
	checks := doctor.Examine(facts)
	if err := writeChecks(f.IO, checks, format); err != nil {
		return err
	}
	if slices.ContainsFunc(checks, func(c doctor.Check) bool { return c.Status == doctor.Failed }) {
		return &quietError{errors.New("a check failed")}
	}
	return nil
}

func writeChecks(io IOStreams, checks []doctor.Check, format string) error {
	if format != "" {
		return encode(io.Out, format, list[doctor.Check]{Items: checks})
	}
	d := newDescription(io)
	colors := map[doctor.Status]string{doctor.OK: colorGreen, doctor.Warning: colorYellow, doctor.Failed: colorRed, doctor.Unknown: colorYellow}
	for _, check := range checks {
		status := fmt.Sprintf("%-8s", check.Status)
		if io.Color {
			status = colors[check.Status] + status + colorReset
		}
		d.text(fmt.Sprintf("%s %s: %s", status, check.Name, check.Text), 9)
		if check.Advice != "" {
			d.text(fmt.Sprintf("%9s-> %s", "", check.Advice), 12)
		}
	}
	return nil
}

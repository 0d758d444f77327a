package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/doctor"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/timelimit"
)

func newDoctorCmd(f *Factory) *cobra.Command {
	var format *output
	var install bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether the cluster is fit to run jobs, and say what to do where it is not",
		Long: "Check whether the cluster is fit to run jobs: the API server and its clock, your rights, the priority\n" +
			"classes, the scheduler and its fence, gpu-controller where it was ever there, the ledger if one is known,\n" +
			"the CRDs, the namespaces, nodes and pools, the device plugins, GPUs that are not healthy, inventories that\n" +
			"cannot be read, and labels that look like a slip.\n" +
			"With --install, for administrators, before and after an installation or an upgrade: whether the cluster has\n" +
			"what we need, your rights to install, and of what is installed whether it is whole, runs and is of one release.\n" +
			"The exit code is 1 when a check failed; a warning is none.",
		Example: "  gpuctl doctor\n  gpuctl doctor -n team-a -o json\n  gpuctl doctor --install",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if install {
				return runDoctorInstall(cmd.Context(), f, format.format)
			}
			return runDoctor(cmd.Context(), f, format.format)
		},
	}
	cmd.Flags().BoolVar(&install, "install", false, "Check what an installation needs, and what is installed, instead")
	format = describeOutput(cmd)
	return cmd
}

func runDoctor(ctx context.Context, f *Factory, format string) error {
	namespace, err := f.currentNamespace()
	if err != nil {
		return err
	}
	client, err := f.newKubernetesClient()
	if err != nil {
		return err
	}
	checks, err := f.checkCluster(ctx, client, namespace)
	if err != nil {
		return err
	}
	return reportChecks(f, checks, format)
}

// checkCluster checks a cluster and its ledger.
func (f *Factory) checkCluster(ctx context.Context, client kubernetes.Interface, namespace string) ([]doctor.Check, error) {
	facts, err := doctor.Read(ctx, client, namespace, f.Now)
	if err != nil {
		return nil, err
	}
	facts.Ledger = f.checkLedger(ctx, namespace)
	return doctor.Examine(facts), ctx.Err()
}

// ledgerTimeout is how long to wait for the ledger beside other output: it either answers at once or is in trouble.
const ledgerTimeout = 5 * time.Second

// checkLedger sends the ledger a small query. A refusal of this user also counts as an answer.
func (f *Factory) checkLedger(ctx context.Context, namespace string) *doctor.Ledger {
	ctx, stop := timelimit.WithLimit(ctx, ledgerTimeout, phrase.Textf("the ledger has not answered"))
	defer stop()
	var o ledgerOptions
	known, err := o.findAddress(ctx, f)
	if !known && err == nil {
		return &doctor.Ledger{}
	}
	out := &doctor.Ledger{Address: o.Address}
	if err == nil {
		var ledger *ledgerclient.Client
		if ledger, err = o.newClient(ctx, f); err == nil {
			_, _, err = ledger.Jobs(ctx, ledgerclient.Query{Namespaces: []string{namespace}, Limit: 1})
		}
	}
	if err != nil && !isLedgerRefusal(err) {
		out.Problem = phrase.FromError(timelimit.Explain(ctx, err))
	}
	return out
}

func runDoctorInstall(ctx context.Context, f *Factory, format string) error {
	client, err := f.newKubernetesClient()
	if err != nil {
		return err
	}
	found, err := doctor.ReadInstallation(ctx, client, f.Now)
	if err != nil {
		return err
	}
	return reportChecks(f, doctor.ExamineInstallation(found), format)
}

// reportChecks writes the checks, and fails if one of them failed.
func reportChecks(f *Factory, checks []doctor.Check, format string) error {
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
		return writeEncoded(io.Out, format, list[doctor.Check]{Items: checks})
	}
	d := newDescription(io)
	colors := map[doctor.Status]string{doctor.OK: colorGreen, doctor.Warning: colorYellow, doctor.Failed: colorRed, doctor.Unknown: colorYellow}
	for _, check := range checks {
		status := fmt.Sprintf("%-8s", check.Status)
		if io.Color {
			status = colors[check.Status] + status + colorReset
		}
		d.writeWrapped(phrase.Textf("%s %s: %s", status, d.language.Translate(check.Name), check.Text).Localize(d.language), 9)
		if len(check.Advice) > 0 {
			d.writeWrapped(fmt.Sprintf("%9s-> %s", "", check.Advice.Localize(d.language)), 12)
		}
	}
	return nil
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
)

const recordLong = `Write down what happens to the nodes, pods and PodGroups of a cluster until you interrupt
it: who comes, where the scheduler puts them, when they leave. What comes out can be
replayed, "gpu-scheduler simulate verify", or tried with another configuration,
"gpu-scheduler simulate --recording".

You must be able to list and watch nodes, pods and PodGroups of all namespaces. Commands
and environments of containers are left out.`

const recordExample = `  # Record for a week, packed
  timeout 7d gpu-scheduler simulate record | gzip > week.jsonl.gz

  # Of another cluster than the current one
  gpu-scheduler simulate record --kubeconfig prod.yaml --output prod.jsonl`

// recorder is the request of the user.
type recorder struct {
	kubeconfig, context, output string
	ledger                      ledgerclient.Options
	out, progress               io.Writer
}

func newRecordCommand() *cobra.Command {
	r := &recorder{}
	cmd := &cobra.Command{
		Use:     "record",
		Short:   "Write down what happens in a cluster, to replay it",
		Long:    recordLong,
		Example: recordExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r.out, r.progress = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return reportError(cmd, r.runRecorder(cmd.Context()))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&r.kubeconfig, "kubeconfig", "", "Kubeconfig file (default is that of kubectl)")
	flags.StringVar(&r.context, "context", "", "Context of the kubeconfig")
	flags.StringVar(&r.ledger.Address, "ledger", "", "Address of the ledger that the scheduler promises starts by (promiseLedger of GPUFilter): what it says is written down, too")
	flags.StringVar(&r.ledger.CA, "ledger-ca", "", "File with the certificate that the ledger's is signed by")
	flags.StringVarP(&r.output, "output", "o", "", "File to write (default is standard output)")
	return cmd
}

// reportError prints an error of a subcommand, in place of the log line of kube-scheduler's command.
func reportError(cmd *cobra.Command, err error) error {
	cmd.SilenceUsage = true
	if err != nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "error:", err)
		silenceLogs()
	}
	return err
}

func (r *recorder) runRecorder(ctx context.Context) (err error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = r.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: r.context}).ClientConfig()
	if err != nil {
		return fmt.Errorf("finding the cluster (give --kubeconfig): %w", err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	runs, err := r.readRuns(ctx, config)
	if err != nil {
		return err
	}
	to := r.out
	if r.output != "" {
		file, err := os.Create(r.output)
		if err != nil {
			return fmt.Errorf("writing the recording: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	recorder := recording.Recorder{Client: client, Clock: clock.RealClock{}, Runs: runs, Began: func(objects int) {
		fmt.Fprintf(r.progress, "Recording what happens to %d objects, until you interrupt it.\n", objects)
	}}
	return recorder.Record(ctx, to)
}

// readRuns returns the run times of jobs from the ledger; none if it is not to be queried.
func (r *recorder) readRuns(ctx context.Context, config *rest.Config) ([]ledger.Run, error) {
	if r.ledger.Address == "" {
		return nil, nil
	}
	client, err := ledgerclient.New(config, r.ledger)
	if err != nil {
		return nil, fmt.Errorf("reading --ledger: %w", err)
	}
	runs, _, err := client.Runs(ctx, ledgerclient.Query{Limit: ledger.RunsToLearn})
	return runs, err
}

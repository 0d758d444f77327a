// Package command is the command line of gpu-controller: which cluster it looks after, and how.
package command

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// options are the flags.
type options struct {
	kubeconfig    string
	leaderElect   bool
	metrics       string
	probes        string
	verbosity     int
	leaseDuration time.Duration
}

// Main runs the program and returns its exit code: 0, or 1 after an error was printed.
func Main() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := New().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:   "gpu-controller",
		Short: "Look after what the scheduler has placed",
		Long: "Look after what the scheduler has placed. Jobs that were disrupted run again at once, without the growing wait of\n" +
			"their controller. docs/recovery.md tells all that it does, and how to turn it off.",
		Example:       "  gpu-controller --kubeconfig ~/.kube/config --leader-elect=false",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the controller's own identity; without it that of its pod")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "Do nothing while another replica leads")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 6*time.Second, "How long after its last word a leader is replaced")
	flags.StringVar(&o.metrics, "metrics-bind-address", ":8443", "Where to serve /metrics by HTTPS to who may get them; 0 turns it off")
	flags.StringVar(&o.probes, "health-probe-bind-address", ":8081", "Where to serve /healthz and /readyz; 0 turns it off")
	flags.IntVarP(&o.verbosity, "v", "v", 2, "How much to log: 0 what always matters, 2 each step, 4 each decision")
	return cmd
}

func (o *options) run(ctx context.Context) error {
	log := logger(o.verbosity)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return fmt.Errorf("finding the cluster (outside of it give --kubeconfig): %w", err)
	}
	config.UserAgent = "gpu-controller/" + version()
	// The API server shares its capacity fairly. With client-go's limit of 5 requests a second, moving the pods of a rack
	// takes an hour.
	config.QPS = -1
	manager, err := o.manager(ctx, config)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// logger writes JSON to standard error, as much as the verbosity says.
func logger(verbosity int) logr.Logger {
	// logr's level n is slog's -n.
	return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-verbosity)}))
}

// version is what the Makefile, or else the Go toolchain, recorded when it built this binary.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// release is what the linker fills in: -X g8s.host/gpu-scheduler/pkg/controller/command.release=v1.0.0.
var release string

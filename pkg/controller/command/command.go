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
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"g8s.host/gpu-scheduler/pkg/controller/advice"
	"g8s.host/gpu-scheduler/pkg/controller/recovery"
)

// options are the flags.
type options struct {
	kubeconfig    string
	leaderElect   bool
	metrics       string
	probes        string
	verbosity     int
	leaseDuration time.Duration
	recovery      recovery.Settings
	advice        advice.Settings
}

const (
	// kubeletLease is how long a kubelet's lease holds. Silence that is shorter proves nothing, whatever stops a machine.
	kubeletLease = 40 * time.Second
	// leastLease is the shortest lease that renewals keep up with.
	leastLease = 3 * time.Second
)

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
		Long: "Look after what the scheduler has placed. Jobs that were disrupted run again at once, nodes that fail get no new pods\n" +
			"until they are well, and the jobs of a dead node run elsewhere. docs/recovery.md tells all that it does.",
		Example:       "  gpu-controller --kubeconfig ~/.kube/config --leader-elect=false",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags is the list of all settings; docs/recovery.md and docs/operations.md explain them.
func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the controller's own identity; without it that of its pod")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "Do nothing while another replica leads")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 6*time.Second, "How long after its last word a leader is replaced")
	flags.StringVar(&o.metrics, "metrics-bind-address", ":8443", "Where to serve /metrics by HTTPS to who may get them; 0 turns it off")
	flags.StringVar(&o.probes, "health-probe-bind-address", ":8081", "Where to serve /healthz and /readyz; 0 turns it off")
	flags.DurationVar(&o.recovery.OutOfServiceAfter, "out-of-service-after", 0,
		"How long after its last sign of life a machine of this cluster is certainly off, 40s or more: its pods are then ended, and run elsewhere. "+
			"0 says that silence proves nothing, and leaves such nodes to the word of their cloud or of a person")
	flags.IntVar(&o.recovery.Budget, "out-of-service-budget", 20, "How many nodes of a pool may be taken for dead at once, in percent; one always may")
	flags.DurationVar(&o.recovery.BackOff, "suspect-back-off", time.Minute, "How long a node that failed must be ready before it gets new pods; doubles each time it fails again")
	flags.DurationVar(&o.recovery.MaxBackOff, "suspect-max-back-off", time.Hour, "The most that this back-off grows to")
	flags.DurationVar(&o.recovery.Forget, "suspect-forget", 6*time.Hour, "How long after a failure of a node it no longer counts")
	flags.StringSliceVar(&o.recovery.Conditions, "suspect-conditions", nil,
		"Types of conditions of nodes, such as those of node-problem-detector, that keep new pods from a node while they are true, and for that back-off afterwards")
	flags.DurationVar(&o.advice.After, "advice-after", 2*time.Minute, "How long jobs wait until it is tried how many more nodes would start them; 0 turns it off")
	flags.DurationVar(&o.advice.Every, "advice-every", time.Minute, "How often that is tried again while they wait")
	flags.IntVarP(&o.verbosity, "v", "v", 2, "How much to log: 0 what always matters, 2 each step, 4 each decision")
}

// check refuses what could not be meant.
func (o *options) check() error {
	r := o.recovery
	switch {
	case o.leaseDuration < leastLease:
		return fmt.Errorf("--leader-elect-lease-duration is %s, want %s or more", o.leaseDuration, leastLease)
	case r.OutOfServiceAfter != 0 && r.OutOfServiceAfter < kubeletLease:
		return fmt.Errorf("--out-of-service-after is %s, want 0 or %s or more: so long a kubelet that lives may be silent", r.OutOfServiceAfter, kubeletLease)
	case r.Budget < 0 || r.Budget > 100:
		return fmt.Errorf("--out-of-service-budget is %d, want 0 to 100 percent", r.Budget)
	case r.BackOff < 0 || r.MaxBackOff < r.BackOff:
		return fmt.Errorf("--suspect-back-off is %s and --suspect-max-back-off %s, want 0 or more and no less than that", r.BackOff, r.MaxBackOff)
	case r.Forget < r.MaxBackOff:
		return fmt.Errorf("--suspect-forget is %s, want no less than --suspect-max-back-off, %s", r.Forget, r.MaxBackOff)
	case o.advice.After < 0 || o.advice.Every < time.Second:
		return fmt.Errorf("--advice-after is %s and --advice-every %s, want 0 or more and 1s or more", o.advice.After, o.advice.Every)
	case o.verbosity < 0:
		return fmt.Errorf("-v is %d, want 0 or more", o.verbosity)
	}
	return nil
}

func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
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

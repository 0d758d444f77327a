// Package command is the command line of gpu-controller.
package command

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"g8s.host/gpu-scheduler/pkg/controller/advice"
	"g8s.host/gpu-scheduler/pkg/controller/broken"
	"g8s.host/gpu-scheduler/pkg/controller/idle"
	"g8s.host/gpu-scheduler/pkg/controller/recovery"
	"g8s.host/gpu-scheduler/pkg/controller/spot/tencent"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/program"
	"g8s.host/gpu-scheduler/pkg/program/tracing"
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
	broken        broken.Settings
	advice        advice.Settings
	spot          spotOptions
	prometheus    string
	idle          idle.Settings
	// private are the CIDRs of private addresses that channels may use.
	private []string
	tracing tracing.Options
}

// spotOptions are the flags of SpotPools.
type spotOptions struct {
	enabled, simulated bool
	secrets            string
	tencentEndpoint    string
}

const (
	// kubeletLease is the duration of a kubelet's lease. A shorter silence proves nothing, whatever stops a machine.
	kubeletLease = 40 * time.Second
	// mostWarnAfter is the range of one Prometheus query.
	mostWarnAfter = 5 * time.Hour
	// leastLease is the shortest lease that can be renewed in time.
	leastLease = 3 * time.Second
)

// Main runs the program and returns its exit code.
func Main() int { return program.Main(New()) }

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	cmd := program.New(&cobra.Command{
		Use:   "gpu-controller",
		Short: "Look after what the scheduler has placed",
		Long: "Look after what the scheduler has placed. Jobs that were disrupted run again at once, nodes that fail get no new pods\n" +
			"until they are well, and the jobs of a dead node run elsewhere. docs/recovery.md tells all that it does.",
		Example: "  gpu-controller --kubeconfig ~/.kube/config --leader-elect=false",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.runManager(cmd.Context()) },
	})
	o.addFlags(cmd.Flags())
	return cmd
}

// addFlags adds all settings; docs/recovery.md, docs/operations.md and docs/spot.md explain them.
func (o *options) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the controller's own identity; without it that of its pod")
	flags.BoolVar(&o.leaderElect, "leader-elect", true, "Do nothing while another replica leads")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 6*time.Second, "How long after its last word a leader is replaced")
	flags.StringVar(&o.metrics, "metrics-bind-address", ":8443", "Where to serve /metrics by HTTPS to who may get them; 0 turns it off")
	flags.StringVar(&o.probes, "health-probe-bind-address", ":8081", "Where to serve /healthz and /readyz; 0 turns it off")
	flags.DurationVar(&o.recovery.OutOfServiceAfter, "out-of-service-after", 0,
		"How long after its last sign of life a machine of this cluster is certainly off, 40s or more: its pods are then ended, and run elsewhere. "+
			"0 says that silence proves nothing, and leaves such nodes to --silent-node-after, the word of their cloud or of a person")
	flags.DurationVar(&o.recovery.SilentAfter, "silent-node-after", nodestate.SilentAfter,
		"How long after its last sign of life a machine is taken for dead though nothing proves it, 40s or more, unless a pod on it holds a volume for "+
			"one node at a time; 0 waits for proof")
	flags.IntVar(&o.recovery.Budget, "out-of-service-budget", 20, "How many nodes of a pool may be taken for dead at once, or have pods ended for broken GPUs within an hour, in percent; one always may")
	flags.DurationVar(&o.recovery.BackOff, "suspect-back-off", time.Minute, "How long a node that failed must be ready before it gets new pods; doubles each time it fails again")
	flags.DurationVar(&o.recovery.MaxBackOff, "suspect-max-back-off", time.Hour, "The most that this back-off grows to")
	flags.DurationVar(&o.recovery.Forget, "suspect-forget", 6*time.Hour, "How long after a failure of a node it no longer counts")
	flags.StringSliceVar(&o.recovery.Conditions, "suspect-conditions", nil,
		"Types of conditions of nodes, such as those of node-problem-detector, that keep new pods from a node while they are true, and for that back-off afterwards")
	flags.DurationVar(&o.broken.After, "broken-gpu-after", 10*time.Second,
		"How long a pod runs on with a GPU that only a reset or a restart mends, such as one that has fallen off the bus, until it is ended and its job "+
			"goes on elsewhere; 0 leaves it there")
	flags.DurationVar(&o.advice.After, "advice-after", 2*time.Minute, "How long jobs wait until it is tried how many more nodes would start them; 0 turns it off")
	flags.DurationVar(&o.advice.Every, "advice-every", time.Minute, "How often that is tried again while they wait")
	flags.BoolVar(&o.spot.enabled, "spot", true, "Look after SpotPools, where the cluster knows them")
	flags.StringVar(&o.spot.secrets, "spot-secrets-namespace", "g8s-spot", "The namespace of the Secrets that SpotPools name")
	flags.StringVar(&o.spot.tencentEndpoint, "spot-tencent-endpoint", tencent.Endpoint, "The address of Tencent Cloud's API of CVM")
	flags.BoolVar(&o.spot.simulated, "spot-simulated", false, "Let SpotPools have simulated machines: nodes that kwok plays, in a sandbox")
	flags.StringVar(&o.prometheus, "prometheus-url", "", "Prometheus that has DCGM's metrics of GPUs; without one idle GPUs are not looked for")
	flags.Float64Var(&o.idle.Below, "idle-below", 5, "The load in percent below which a GPU is idle")
	flags.DurationVar(&o.idle.WarnAfter, "idle-warn-after", time.Hour, "For how long a job's GPUs must be idle to warn of it; 0 turns that off")
	flags.StringSliceVar(&o.private, "notify-private-addresses", nil,
		"Private addresses that channels may lead to, such as 10.1.2.0/24; public ones they always may")
	o.tracing.AddFlags(flags)
	flags.IntVarP(&o.verbosity, "v", "v", 2, "How much to log: 0 what always matters, 2 each step, 4 each decision")
}

// validateFlags rejects invalid settings.
func (o *options) validateFlags() error {
	switch {
	case o.leaseDuration < leastLease:
		return fmt.Errorf("--leader-elect-lease-duration is %s, want %s or more", o.leaseDuration, leastLease)
	case o.broken.After < 0:
		return fmt.Errorf("--broken-gpu-after is %s, want 0 or more", o.broken.After)
	case o.advice.After < 0 || o.advice.Every < time.Second:
		return fmt.Errorf("--advice-after is %s and --advice-every %s, want 0 or more and 1s or more", o.advice.After, o.advice.Every)
	case o.verbosity < 0:
		return fmt.Errorf("-v is %d, want 0 or more", o.verbosity)
	}
	if _, err := parsePrefixes(o.private); err != nil {
		return err
	}
	return cmp.Or(checkRecovery(o.recovery), checkIdle(o.idle))
}

func checkRecovery(r recovery.Settings) error {
	switch {
	case r.OutOfServiceAfter != 0 && r.OutOfServiceAfter < kubeletLease:
		return fmt.Errorf("--out-of-service-after is %s, want 0 or %s or more: so long a kubelet that lives may be silent", r.OutOfServiceAfter, kubeletLease)
	case r.SilentAfter != 0 && r.SilentAfter < kubeletLease:
		return fmt.Errorf("--silent-node-after is %s, want 0 or %s or more: so long a kubelet that lives may be silent", r.SilentAfter, kubeletLease)
	case r.Budget < 0 || r.Budget > 100:
		return fmt.Errorf("--out-of-service-budget is %d, want 0 to 100 percent", r.Budget)
	case r.BackOff < 0 || r.MaxBackOff < r.BackOff:
		return fmt.Errorf("--suspect-back-off is %s and --suspect-max-back-off %s, want 0 or more and no less than that", r.BackOff, r.MaxBackOff)
	case r.Forget < r.MaxBackOff:
		return fmt.Errorf("--suspect-forget is %s, want no less than --suspect-max-back-off, %s", r.Forget, r.MaxBackOff)
	}
	return nil
}

func checkIdle(s idle.Settings) error {
	switch {
	case s.Below <= 0 || s.Below > 100 || s.WarnAfter < 0:
		return fmt.Errorf("--idle-below is %g and --idle-warn-after %s, want more than 0 and up to 100 percent, and 0 or more", s.Below, s.WarnAfter)
	case s.WarnAfter > mostWarnAfter:
		return fmt.Errorf("--idle-warn-after is %s, want %s or less: so much of the past is read each time", s.WarnAfter, mostWarnAfter)
	}
	return nil
}

func (o *options) runManager(ctx context.Context) error {
	if err := o.validateFlags(); err != nil {
		return err
	}
	o.broken.Budget = o.recovery.Budget
	log := newLogger(o.verbosity)
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	// With a rate limit, moving the pods of a rack takes an hour.
	config, err := program.UnlimitedConfig(o.kubeconfig, "gpu-controller")
	if err != nil {
		return err
	}
	stop, err := o.tracing.Start(ctx, tracing.Program{Name: "gpu-controller", Version: program.Version(), ReportError: func(err error) {
		log.Info("The collector takes no spans", "error", err.Error())
	}})
	if err != nil {
		return err
	}
	defer stop()
	manager, err := o.newManager(ctx, config)
	if err != nil {
		return err
	}
	return manager.Start(ctx)
}

// newLogger returns a logger that writes JSON to standard error at the verbosity.
func newLogger(verbosity int) logr.Logger {
	// logr's level n is slog's -n.
	return logr.FromSlogHandler(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.Level(-verbosity)}))
}

package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"
	"k8s.io/client-go/tools/cache"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	"g8s.host/gpu-scheduler/pkg/program"
	"g8s.host/gpu-scheduler/pkg/program/tracing"
	"g8s.host/gpu-scheduler/plugins"
)

// commandParts are what the command adds to kube-scheduler's own.
type commandParts struct {
	explanations *explanations
	pace         bindingPace
	leading      leaderOptions
	tracing      tracing.Options
}

// newCommand reassembles kube-scheduler's command, because the original has no hook between the setup of the leader election and its start.
// Flags, logging, feature gates and signals are the same, and so are the options, which add plugins to ours.
func newCommand(more ...app.Option) *cobra.Command {
	o, own := options.NewOptions(), &commandParts{explanations: newExplanations()}
	own.explanations.addFlags(o.Flags.FlagSet("explanations"))
	own.pace.addFlags(o.Flags.FlagSet("pace"))
	own.leading.addFlags(o.Flags.FlagSet("leading"))
	own.tracing.AddFlags(o.Flags.FlagSet("tracing"))
	cmd := &cobra.Command{
		Use:   "gpu-scheduler",
		Short: "Place pods on GPU nodes",
		Long: `gpu-scheduler is kube-scheduler with plugins that know GPUs: which pool and type a
node is of, which of its cards are free, and how they are connected. Flags,
configuration and endpoints are those of kube-scheduler.`,
		Args: cobra.NoArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return o.ComponentGlobalsRegistry.Set() // the feature gates
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return runScheduler(cmd, o, own, more) },
	}
	addFlags(cmd, o)
	cmd.AddCommand(newSimulateCommand(), newConfigCommand())
	return cmd
}

func addFlags(cmd *cobra.Command, o *options.Options) {
	global := o.Flags.FlagSet("global")
	verflag.AddFlags(global)
	globalflag.AddGlobalFlags(global, cmd.Name(), logs.SkipLoggingConfigurationFlags())
	for _, flags := range o.Flags.FlagSets {
		cmd.Flags().AddFlagSet(flags)
	}
	columns, _, _ := term.TerminalSize(cmd.OutOrStdout()) // 0, without wrapping, where it is no terminal
	cliflag.SetUsageAndHelpFunc(cmd, *o.Flags, columns)
}

// runScheduler sets up logging first, so that everything that follows is logged as configured, then the scheduler, and runs it until it is told
// to end or no longer leads.
func runScheduler(cmd *cobra.Command, o *options.Options, own *commandParts, more []app.Option) error {
	verflag.PrintAndExitIfRequested()
	if err := errors.Join(own.pace.validateFlags(), own.leading.validateFlags()); err != nil {
		return err
	}
	gates := o.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(o.Logs, gates); err != nil {
		return fmt.Errorf("setting up the logs: %w", err)
	}
	cliflag.PrintFlags(cmd.Flags())
	warn := func(text string) { klog.Background().Info("Warning: "+text, "config", o.ConfigFile) }
	if err := checkVersion(o.ConfigFile, warn); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(signals.SetupSignalHandler())
	defer stop()
	if err := defaultProber.emulateServer(ctx, stop, o); err != nil {
		return err
	}
	if err := plugins.CheckFeatures(gates); err != nil {
		return err
	}
	flush, err := own.startTracing(ctx)
	if err != nil {
		return err
	}
	defer flush()
	if o.InformerName, err = cache.NewInformerName("gpu-scheduler"); err != nil {
		return err //nolint:wrapcheck // the error names it
	}
	defer o.InformerName.Release()
	config, scheduler, err := setUpScheduler(ctx, stop, o, &own.leading, plugins.Dependencies{Explain: own.explanations.recorder, Gate: own.pace.newGate()}, more)
	if err != nil {
		return err
	}
	if own.tracing.IsEnabled() {
		plugins.Trace(scheduler, otel.Tracer("g8s.host/gpu-scheduler/plugins"))
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	o.ComponentGlobalsRegistry.AddMetrics()
	if err := own.explanations.serveRecords(ctx, config); err != nil {
		return err
	}
	return app.Run(ctx, config, scheduler)
}

// startTracing starts sending spans, if a file says where to. flush sends the remaining ones.
func (p *commandParts) startTracing(ctx context.Context) (flush func(), err error) {
	return p.tracing.Start(ctx, tracing.Program{Name: "gpu-scheduler", Version: program.Version(), ReportError: func(err error) {
		klog.FromContext(ctx).Info("The collector takes no spans", "err", err)
	}})
}

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"sigs.k8s.io/controller-runtime/pkg/manager/signals"

	"g8s.host/gpu-scheduler/plugins"
)

// newCommand is kube-scheduler's command put together again, because that one lets nobody in between the set-up of
// the leader election and its start. Flags, logging, feature gates and signals are the same, and so are the options, which
// add plugins to ours.
func newCommand(more ...app.Option) *cobra.Command {
	o, why, pace, leading := options.NewOptions(), newExplanations(), &pace{}, &leading{}
	why.addFlags(o.Flags.FlagSet("explanations"))
	pace.addFlags(o.Flags.FlagSet("pace"))
	leading.addFlags(o.Flags.FlagSet("leading"))
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
		RunE: func(cmd *cobra.Command, _ []string) error { return start(cmd, o, why, pace, leading, more) },
	}
	addFlags(cmd, o)
	cmd.AddCommand(newSimulateCommand())
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

// start sets up logging first, so that all that follows is logged as asked, then the scheduler, and runs it until it
// is told to end or is the leader no more.
func start(cmd *cobra.Command, o *options.Options, why *explanations, pace *pace, leading *leading, more []app.Option) error {
	verflag.PrintAndExitIfRequested()
	if err := errors.Join(pace.validate(), leading.validate()); err != nil {
		return err
	}
	gates := o.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(o.Logs, gates); err != nil {
		return fmt.Errorf("setting up the logs: %w", err)
	}
	cliflag.PrintFlags(cmd.Flags())
	ctx, stop := context.WithCancel(signals.SetupSignalHandler())
	defer stop()
	config, scheduler, err := setup(ctx, stop, o, leading, plugins.Dependencies{Explain: why.recorder, Gate: pace.gate()}, more)
	if err != nil {
		return err
	}
	if mutable, ok := gates.(featuregate.MutableFeatureGate); ok {
		mutable.AddMetrics()
	}
	o.ComponentGlobalsRegistry.AddMetrics()
	if err := why.serve(ctx, config); err != nil {
		return err
	}
	return app.Run(ctx, config, scheduler)
}

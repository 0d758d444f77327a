package main

import (
	"context"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"

	"g8s.host/gpu-scheduler/pkg/attempt"
	"g8s.host/gpu-scheduler/pkg/fence"
	"g8s.host/gpu-scheduler/pkg/liveness"
	"g8s.host/gpu-scheduler/plugins"
)

// setup makes a scheduler with our plugins, whose bindings carry the epoch of its leadership. stop ends ctx, which ends
// the scheduler.
func setup(
	ctx context.Context, stop func(), o *options.Options, leading *leading, dependencies plugins.Dependencies, more []app.Option,
) (*config.CompletedConfig, *scheduler.Scheduler, error) {
	logger := klog.FromContext(ctx)
	leadership := fence.New(clock.RealClock{}, func() {
		logger.Info("Another scheduler leads, this one ends")
		stop()
	})
	dependencies.Epoch, dependencies.Attempts = leadership.Epoch, &attempt.Counter{}
	completed, scheduler, err := app.Setup(ctx, o, append(withPlugins(dependencies), more...)...)
	if err != nil {
		return nil, nil, err
	}
	loop := &liveness.Loop{}
	plugins.Attach(scheduler, plugins.Options{Gate: dependencies.Gate, Attempts: dependencies.Attempts, Loop: loop})
	leading.watch(ctx, stop, scheduler, loop)
	if completed.LeaderElection == nil {
		logger.Info("Leader election is off: where manifests/policy is installed, the API server refuses every binding (docs/failover.md)")
		return completed, scheduler, nil
	}
	if err := leadership.Protect(completed.LeaderElection, leading.takeover); err != nil {
		return nil, nil, err
	}
	return completed, scheduler, nil
}

func withPlugins(dependencies plugins.Dependencies) []app.Option {
	var options []app.Option
	for name, factory := range plugins.Registry(dependencies) {
		options = append(options, app.WithPlugin(name, factory))
	}
	return options
}

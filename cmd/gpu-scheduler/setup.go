package main

import (
	"context"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"

	"g8s.host/gpu-scheduler/pkg/fence"
	"g8s.host/gpu-scheduler/plugins"
)

// setup makes a scheduler with our plugins, whose bindings carry the epoch of its leadership.
func setup(ctx context.Context, o *options.Options) (*config.CompletedConfig, *scheduler.Scheduler, error) {
	leadership := fence.New(clock.RealClock{})
	completed, scheduler, err := app.Setup(ctx, o, withPlugins(plugins.Dependencies{Epoch: leadership.Epoch})...)
	if err != nil {
		return nil, nil, err
	}
	if completed.LeaderElection == nil {
		klog.FromContext(ctx).Info("Leader election is off: where manifests/policy is installed, the API server refuses every binding (docs/failover.md)")
		return completed, scheduler, nil
	}
	if err := leadership.Protect(completed.LeaderElection); err != nil {
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

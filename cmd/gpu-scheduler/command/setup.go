package command

import (
	"context"
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/utils/clock"

	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/fence"
	"g8s.host/gpu-scheduler/pkg/liveness"
	"g8s.host/gpu-scheduler/plugins"
)

// setUpScheduler creates a scheduler with our plugins, whose bindings carry the epoch of its leadership. stop ends ctx, which ends the scheduler.
func setUpScheduler(
	ctx context.Context, stop func(), o *options.Options, leading *leaderOptions, dependencies plugins.Dependencies, more []app.Option,
) (*config.CompletedConfig, *scheduler.Scheduler, error) {
	logger := klog.FromContext(ctx)
	leadership := fence.New(clock.RealClock{}, func() {
		logger.Info("Another scheduler leads, this one ends")
		stop()
	})
	loop := &liveness.Loop{}
	dependencies.Epoch, dependencies.Attempts, dependencies.Loop = leadership.Epoch, &cycle.Attempts{}, loop
	retryAfter := takeRetries(o)
	completed, scheduler, err := app.Setup(ctx, o, append(withPlugins(dependencies), more...)...)
	if err != nil {
		return nil, nil, err
	}
	if err := boundAmounts(completed.InformerFactory); err != nil {
		return nil, nil, err
	}
	plugins.Wrap(scheduler, plugins.Options{Gate: dependencies.Gate, Attempts: dependencies.Attempts, Loop: loop, RetryAfter: retryAfter})
	standby := plugins.NewStandby(scheduler)
	go standby.Run(ctx)
	leading.watchLoop(ctx, stop, scheduler, loop)
	if completed.LeaderElection == nil {
		logger.Info("Leader election is off: where manifests/policy is installed, the API server refuses every binding (docs/failover.md)")
		return completed, scheduler, nil
	}
	if err := leadership.Protect(completed.LeaderElection, leading.takeover); err != nil {
		return nil, nil, err
	}
	return completed, scheduler, nil
}

// takeRetries turns off kube-scheduler's own retries of pods that wait without an event, and returns their configured delay: [plugins.Wrap]
// retries them, a few at a time.
func takeRetries(o *options.Options) time.Duration {
	after := max(o.Deprecated.PodMaxInUnschedulablePodsDuration, time.Second)
	o.Deprecated.PodMaxInUnschedulablePodsDuration = math.MaxInt64
	return after
}

func withPlugins(dependencies plugins.Dependencies) []app.Option {
	var options []app.Option
	for name, factory := range plugins.Registry(dependencies) {
		options = append(options, app.WithPlugin(name, factory))
	}
	return options
}

// boundAmounts keeps amounts that no arithmetic can handle away from the scheduler and Kubernetes' plugins. It is called before the informers
// start.
func boundAmounts(factory informers.SharedInformerFactory) error {
	core, devices := factory.Core().V1(), factory.Resource().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.Pods().Informer(), core.Nodes().Informer(), core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer(),
		devices.ResourceClaims().Informer(), devices.ResourceSlices().Informer(), factory.Storage().V1().CSIStorageCapacities().Informer(),
	} {
		err := informer.SetTransform(func(object any) (any, error) {
			if accessor, err := meta.Accessor(object); err == nil {
				accessor.SetManagedFields(nil) // as kube-scheduler's own transform does, in whose place this one is
			}
			amounts.Bound(object)
			return object, nil
		})
		if err != nil {
			return fmt.Errorf("bounding the amounts of objects: %w", err)
		}
	}
	return nil
}

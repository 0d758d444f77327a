// Package plugins lists every scheduler plugin that gpu-scheduler can run.
package plugins

import (
	"context"
	"errors"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"sigs.k8s.io/scheduler-plugins/pkg/noderesourcetopology"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/backpressure"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/explain"
	quotas "g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/liveness"
	"g8s.host/gpu-scheduler/pkg/preemption"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
	"g8s.host/gpu-scheduler/pkg/survival"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/plugins/gpudevices"
	"g8s.host/gpu-scheduler/plugins/gpuexplain"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/plugins/gpuquota"
	"g8s.host/gpu-scheduler/plugins/gpureserve"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
)

// Dependencies are shared by the plugins of all profiles of one process. The zero value disables all of them.
type Dependencies struct {
	// Epoch is the leadership that bindings are made under, and false if there is none. It may be nil.
	Epoch func() (string, bool)
	// Gate counts the bindings in flight. It may be nil.
	Gate *backpressure.Gate
	// Loop is notified of what the first cycle reads. It may be nil.
	Loop *liveness.Loop
	// Explain records why pods are where they are. It may be nil.
	Explain *explain.Recorder
	// Attempts numbers scheduling attempts, from 1 if it is nil. A replay sets it.
	Attempts *cycle.Attempts
	// Now is the clock of decisions, time.Now if it is nil. A replay has one that stands still.
	Now func() time.Time
	// Quotas are the GPUQuotas of the cluster, those of the API server if it is nil. A replay reports pods to them.
	Quotas *quotas.Quotas
	// Past is the run times of jobs for a replay whose configuration names a ledger, which is not queried. It may be nil.
	Past *survival.History
	// Replay says that time is simulated, so that nothing is started that a timer has to continue: victims get no notice before their eviction,
	// and the caller reports pods that are gone.
	Replay bool
}

// gangFramework are the framework values that Coscheduling needs for dry runs.
var gangFramework = preemption.Framework{
	State:   func() fwk.CycleState { return framework.NewCycleState() },
	PodInfo: func(pod *corev1.Pod) (fwk.PodInfo, error) { return framework.NewPodInfo(pod) },
}

// withdrawnPlugins are plugins of earlier releases, with what to configure instead.
var withdrawnPlugins = map[string]string{
	"CapacityScheduling": "take it out of the profile: GPUQuotas guarantee GPUs to namespaces and let them borrow (docs/quotas.md)",
}

// newWithdrawnPlugin makes a profile with a withdrawn plugin fail with that advice. kube-scheduler would only say that no such plugin exists.
func newWithdrawnPlugin(name, instead string) frameworkruntime.PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
		return nil, errors.New(name + " is not part of gpu-scheduler any more: " + instead)
	}
}

// shareInstance gives the profiles of our names that configure a plugin alike the same instance. Ours keep what they know of the cluster: two would
// follow it twice, and neither would know what the other has decided. Profiles of other names have instances of their own, because a dry run of
// preemption asks the other plugins of the profile that an instance was made for.
func shareInstance(build frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	type instance struct {
		informers informers.SharedInformerFactory
		args      runtime.Object
		plugin    fwk.Plugin
	}
	var made []instance
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		if !names.IsOurScheduler(handle.ProfileName()) {
			return build(ctx, args, handle)
		}
		factory := handle.SharedInformerFactory()
		for _, known := range made {
			if factory != nil && known.informers == factory && reflect.DeepEqual(known.args, args) {
				return known.plugin, nil
			}
		}
		plugin, err := build(ctx, args, handle)
		if err == nil {
			made = append(made, instance{factory, args, plugin})
		}
		return plugin, err
	}
}

// Registry returns our plugins, and those of scheduler-plugins that GPU clusters use. None runs until a profile enables it.
func Registry(deps Dependencies) frameworkruntime.Registry {
	ledger, reservations, promises := devices.NewCache(), follow.New(deps.Now), backfill.NewStartReservations(deps.Now)
	ledger.OnRead = deps.Loop.NoteNodeRead
	if deps.Quotas == nil {
		deps.Quotas = quotas.New(deps.Now)
	}
	if deps.Attempts == nil {
		deps.Attempts = &cycle.Attempts{}
	}
	binds := gpudevices.Dependencies{DeviceCache: ledger, Epoch: deps.Epoch, Gate: deps.Gate, Attempts: deps.Attempts}
	foresee := binds.CheckBinding
	if deps.Replay {
		foresee = nil // a replay has no API server to ask
	}
	registry := frameworkruntime.Registry{
		gpudevices.Name: gpudevices.Factory(binds),
		gpuexplain.Name: gpuexplain.Factory(gpuexplain.Dependencies{Recorder: deps.Explain, GPUs: ledger, Now: time.Now}),
		gpufilter.Name: gpufilter.Factory(gpufilter.Dependencies{
			DeviceCache: ledger, Reservations: reservations, StartReservations: promises, LearnRunTimes: newLearner(promises, deps),
		}),
		gpuquota.Name: gpuquota.Factory(gpuquota.Dependencies{Quotas: deps.Quotas}),
		gpuscore.Name: gpuscore.Factory(gpuscore.Dependencies{
			Explain: deps.Explain != nil, Devices: ledger, Attempts: deps.Attempts, StartReservations: promises,
		}),
		gpureserve.Name: gpureserve.Factory(gpureserve.Dependencies{Devices: ledger, Now: deps.Now}),

		coscheduling.Name: coscheduling.Factory(coscheduling.Dependencies{
			DeviceCache: ledger, Reservations: reservations, StartReservations: promises, Quotas: deps.Quotas, Now: deps.Now, Replay: deps.Replay, Framework: gangFramework,
			CheckBinding: foresee,
		}),
		noderesourcetopology.Name: noderesourcetopology.New,
	}
	for _, name := range []string{
		gpudevices.Name, gpuexplain.Name, gpufilter.Name, gpuquota.Name, gpuscore.Name, gpureserve.Name, coscheduling.Name,
	} {
		registry[name] = shareInstance(registry[name])
	}
	for name, instead := range withdrawnPlugins {
		registry[name] = newWithdrawnPlugin(name, instead)
	}
	return registry
}

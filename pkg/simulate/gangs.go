package simulate

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
)

// permitWait is a pod with a place that waits at Permit. kube-scheduler has such a pod wait in a goroutine; here the plugin's decision to allow or reject
// it takes effect at once.
type permitWait struct {
	pod     *corev1.Pod
	state   fwk.CycleState
	fw      framework.Framework
	verdict verdict
}

type verdict int

const (
	undecided verdict = iota
	allowed
	rejected
)

var _ fwk.WaitingPod = (*permitWait)(nil)

// GetPod implements fwk.WaitingPod.
func (h *permitWait) GetPod() *corev1.Pod { return h.pod }

// GetPendingPlugins implements fwk.WaitingPod: one plugin alone holds pods.
func (h *permitWait) GetPendingPlugins() []string {
	if h.verdict != undecided {
		return nil
	}
	return []string{coscheduling.Name}
}

// Allow implements fwk.WaitingPod.
func (h *permitWait) Allow(string) { h.setVerdict(allowed) }

// Reject implements fwk.WaitingPod.
func (h *permitWait) Reject(string, string) bool { return h.setVerdict(rejected) }

// Preempt implements fwk.WaitingPod.
func (h *permitWait) Preempt(string, string) bool { return h.setVerdict(rejected) }

// setVerdict keeps the first verdict, as kube-scheduler does, and reports whether this is it.
func (h *permitWait) setVerdict(v verdict) bool {
	if h.verdict != undecided {
		return false
	}
	h.verdict = v
	return true
}

// handle is the scheduler's handle for the plugin of gangs: waiting pods are those of the engine.
type handle struct {
	fwk.Handle
	*engine
}

// IterateOverWaitingPods implements fwk.Handle.
func (h handle) IterateOverWaitingPods(callback func(fwk.WaitingPod)) {
	for _, waiting := range slices.Clone(h.held) {
		callback(waiting)
	}
}

// GetWaitingPod implements fwk.Handle: victims that wait are rejected through it.
func (h handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	for _, waiting := range h.held {
		if waiting.pod.UID == uid {
			return waiting
		}
	}
	return nil
}

// pluginRegistry is the production registry, in which the plugin of gangs gets our own handle.
func (e *engine) pluginRegistry() frameworkruntime.Registry {
	all := plugins.Registry(plugins.Dependencies{
		Attempts: &e.attempts, Explain: e.explain, Now: func() time.Time { return e.now }, Quotas: e.quotas, Past: e.past, Replay: true,
	})
	gangs := all[coscheduling.Name]
	all[coscheduling.Name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return gangs(ctx, args, handle{h, e})
	}
	return all
}

// settleGangs processes decided members of gangs until none is left. A release by one of them may make others release their places too.
func (e *engine) settleGangs(ctx context.Context, out *outcome) error {
	for {
		at := slices.IndexFunc(e.held, func(h *permitWait) bool { return h.verdict != undecided })
		if at < 0 {
			return nil
		}
		h := e.held[at]
		e.held = slices.Delete(e.held, at, at+1)
		if err := e.concludeMember(ctx, h, out); err != nil {
			return err
		}
	}
}

// concludeMember binds an allowed member, or releases its place.
func (e *engine) concludeMember(ctx context.Context, h *permitWait, out *outcome) error {
	h.fw.RejectWaitingPod(h.pod.UID) // ends its wait; WaitOnPermit then removes the entry
	_ = h.fw.WaitOnPermit(ctx, h.pod)
	if h.verdict == rejected {
		out.released = append(out.released, h.pod.UID)
		return e.unreservePod(ctx, h)
	}
	bound, err := e.bindPod(ctx, h)
	if err != nil {
		return err
	}
	out.bound = append(out.bound, bound)
	return nil
}

// releaseWaiting makes all waiting members of gangs release their places.
func (e *engine) releaseWaiting(ctx context.Context) (outcome, error) {
	for _, h := range e.held {
		h.Reject(coscheduling.Name, "not all members have a place")
	}
	var out outcome
	return out, e.settleGangs(ctx, &out)
}

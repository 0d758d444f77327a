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

// held is a pod with a place that waits at Permit. kube-scheduler has such a pod wait in a goroutine; here the plugin
// that lets it go on, or has it give up, is heard at once.
type held struct {
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

var _ fwk.WaitingPod = (*held)(nil)

// GetPod implements fwk.WaitingPod.
func (h *held) GetPod() *corev1.Pod { return h.pod }

// GetPendingPlugins implements fwk.WaitingPod: one plugin alone holds pods.
func (h *held) GetPendingPlugins() []string {
	if h.verdict != undecided {
		return nil
	}
	return []string{coscheduling.Name}
}

// Allow implements fwk.WaitingPod.
func (h *held) Allow(string) { h.decide(allowed) }

// Reject implements fwk.WaitingPod.
func (h *held) Reject(string, string) bool { return h.decide(rejected) }

// Preempt implements fwk.WaitingPod.
func (h *held) Preempt(string, string) bool { return h.decide(rejected) }

// decide keeps the first verdict, as kube-scheduler does, and reports whether this is it.
func (h *held) decide(v verdict) bool {
	if h.verdict != undecided {
		return false
	}
	h.verdict = v
	return true
}

// handle is what the plugin of gangs sees of the scheduler: pods that wait are those of the engine.
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

// GetWaitingPod implements fwk.Handle: those who leave for a gang are rejected by it.
func (h handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	for _, waiting := range h.held {
		if waiting.pod.UID == uid {
			return waiting
		}
	}
	return nil
}

// registry is that of production. The plugin of gangs gets our own handle.
func (e *engine) registry() frameworkruntime.Registry {
	all := plugins.Registry(plugins.Dependencies{
		Attempts: &e.attempts, Explain: e.explain, Now: func() time.Time { return e.now }, Quotas: e.quotas, Past: e.past, Replay: true,
	})
	gangs := all[coscheduling.Name]
	all[coscheduling.Name] = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		return gangs(ctx, args, handle{h, e})
	}
	return all
}

// settle goes on with the members of gangs that wait no longer, until none is left. What one of them gives up may have
// others give up too.
func (e *engine) settle(ctx context.Context, out *outcome) error {
	for {
		at := slices.IndexFunc(e.held, func(h *held) bool { return h.verdict != undecided })
		if at < 0 {
			return nil
		}
		h := e.held[at]
		e.held = slices.Delete(e.held, at, at+1)
		if err := e.conclude(ctx, h, out); err != nil {
			return err
		}
	}
}

// conclude binds a member that has been let go, or takes its place away.
func (e *engine) conclude(ctx context.Context, h *held, out *outcome) error {
	h.fw.RejectWaitingPod(h.pod.UID) // ends its wait, of which WaitOnPermit removes the trace
	_ = h.fw.WaitOnPermit(ctx, h.pod)
	if h.verdict == rejected {
		out.released = append(out.released, h.pod.UID)
		return e.giveUp(ctx, h)
	}
	bound, err := e.bind(ctx, h)
	if err != nil {
		return err
	}
	out.bound = append(out.bound, bound)
	return nil
}

// release has all members of gangs give up their places that still wait for others.
func (e *engine) release(ctx context.Context) (outcome, error) {
	for _, h := range e.held {
		h.Reject(coscheduling.Name, "not all members have a place")
	}
	var out outcome
	return out, e.settle(ctx, &out)
}

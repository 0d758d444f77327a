package coscheduling

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// bindRefusal is a pod whose Binding would be refused, and the words of the refusal.
type bindRefusal struct {
	pod   *corev1.Pod
	words string
}

// Error implements error.
func (f *bindRefusal) Error() string { return f.words }

// WouldBeRefused reports whether the API server would refuse to bind a pod to a node that victims are to leave. The pod then evicts nothing for
// a while and reports why, as if it had lost the place. Its gang has no room without the victims, so that PostFilter decides on
// its bound members.
func (p *Plugin) WouldBeRefused(ctx context.Context, pod *corev1.Pod, node string) bool {
	refused := p.checkBind(ctx, pod, node)
	if refused != nil {
		p.RecordLostPlace(pod, refused.words)
	}
	return refused != nil
}

func (p *Plugin) checkBind(ctx context.Context, pod *corev1.Pod, node string) *bindRefusal {
	if p.checkBinding == nil || node == "" {
		return nil
	}
	if words := p.checkBinding(ctx, p.handle.ClientSet(), pod, node); words != "" {
		return &bindRefusal{pod, words}
	}
	return nil
}

// checkBindings returns a member whose planned binding would be refused, nil for none. Without it the others would not start. All checks together
// have bindCheckTimeout. The evictions that follow have a timeout of their own: a slow webhook would use it up for a large gang, each time.
func (p *Plugin) checkBindings(members []*corev1.Pod, to map[types.UID]string) *bindRefusal {
	ctx, cancel := context.WithTimeout(context.Background(), p.bindCheckTimeout)
	defer cancel()
	var refused *bindRefusal
	err := preemption.ForEachPod(ctx, members, func(ctx context.Context, pod *corev1.Pod) error {
		if one := p.checkBind(ctx, pod, to[pod.UID]); one != nil {
			return one
		}
		return nil
	})
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

// cancelPreemption cancels the preemption of a gang when a member's binding would be refused. One member is activated, and reports the refusal.
func (p *Plugin) cancelPreemption(g gang, move *preemptionCandidate, preemptor *corev1.Pod, refused *bindRefusal) {
	p.departures.EndEvictions(move.victims, func(types.UID) bool { return false }, p.now())
	if move.notices != nil {
		p.withdrawNotices(preemptorKey(g))
	}
	p.RecordLostPlace(refused.pod, refused.words)
	p.gangs.changeKnown(g, (*phase.Gang).CancelPreemption)
	klog.Background().Info("No pod leaves for one whose binding would be refused", "pod", klog.KObj(refused.pod), "victims", len(move.victims), "refusal", refused.words)
	p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(preemptor).String(): preemptor})
}

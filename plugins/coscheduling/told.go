package coscheduling

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
)

// sendOff evicts the victims of a gang, and returns which are gone; or notifies them first.
func (p *Plugin) sendOff(ctx context.Context, g gang, move *clearance, members []*corev1.Pod, preemptor *corev1.Pod, isRefusal func(error) bool) (sets.Set[types.UID], error) {
	if move.told != nil {
		return sets.New[types.UID](), p.tellAll(ctx, move, members)
	}
	return p.evictAll(ctx, move.victims, preempted(g, preemptor), isRefusal, func() bool { return p.awaits(members, move) })
}

// tellAll notifies the victims of a gang, as long as all its members are alive.
func (p *Plugin) tellAll(ctx context.Context, move *clearance, members []*corev1.Pod) error {
	return p.each(ctx, move.victims, func(ctx context.Context, victim *corev1.Pod) error {
		if !p.awaits(members, move) {
			return errUnwanted
		}
		return p.writeNotice(ctx, nameOf(victim), victim.UID)
	})
}

// withdraw withdraws the notices for a preemptor.
func (p *Plugin) withdraw(key notice.Key) { p.publish(p.notices.drop(key)) }

// persist is the retry schedule for withdrawing notices: half a minute.
var persist = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 9}

// publish writes on pods that they may stay, concurrently with scheduling.
func (p *Plugin) publish(pods map[types.UID]noticed) {
	if len(pods) == 0 {
		return
	}
	p.writing.Add(1)
	go func() {
		defer p.writing.Add(-1)
		for uid, told := range pods {
			err := wait.ExponentialBackoff(persist, func() (bool, error) {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				return p.writeNotice(ctx, told.name, uid) == nil, nil
			})
			if err != nil {
				klog.Background().Error(err, "Could not tell a pod that it may stay", "pod", klog.KRef(told.name.Namespace, told.name.Name))
			}
		}
	}()
}

// writeNotice writes on a pod its notice, or that it may stay, and repeats that until the state has not changed during the write.
func (p *Plugin) writeNotice(ctx context.Context, name types.NamespacedName, uid types.UID) error {
	for {
		told, leaves := p.notices.onPod(uid)
		pod := p.living(name, uid)
		if pod == nil {
			return nil
		}
		var text any
		if leaves {
			text = told.Text()
		}
		if err := p.annotate(ctx, pod, names.AnnotationPreemptionNotice, text); err != nil {
			return err
		}
		p.tellNotice(pod, told, leaves)
		if now, still := p.notices.onPod(uid); now == told && still == leaves {
			return nil
		}
	}
}

// annotate sets an annotation of a pod, nil removes it. It patches the status subresource, the only part of a pod that the scheduler may patch.
func (p *Plugin) annotate(ctx context.Context, pod *corev1.Pod, name string, value any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]any{name: value}}})
	if err != nil {
		return fmt.Errorf("writing an annotation of pod %s: %w", klog.KObj(pod), err)
	}
	_, err = p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !p.isGone(ctx, pod, err) {
		return fmt.Errorf("changing an annotation of pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

// look activates a preemptor once the time of its notified victims is over, and sets a timer for that otherwise.
func (p *Plugin) look(key notice.Key) {
	by, ok := p.notices.by(key)
	if !ok {
		return
	}
	until, due := p.heed(key)
	switch now := p.now(); {
	case due == nil:
		p.notices.drop(key)
	case until.IsZero() && !p.isAwaited(by, false): // the preemptor was gone before its notices were recorded
		p.withdraw(key)
	case until.IsZero():
		p.rouse(by)
		p.notices.arm(key, exhausted, func() { p.look(key) }) // the eviction may have failed
	default:
		p.notices.arm(key, until.Sub(now), func() { p.look(key) })
	}
}

// rouse activates a preemptor.
func (p *Plugin) rouse(by notice.Preemptor) {
	if by.Group == "" {
		if pod := p.living(types.NamespacedName{Namespace: by.Namespace, Name: by.Pod}, by.UID); pod != nil {
			p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(pod).String(): pod})
		}
		return
	}
	g := gang{group: types.NamespacedName{Namespace: by.Namespace, Name: by.Group}, owner: by.UID}
	if group := p.groups.get(g.group); group != nil {
		p.wake(g, group, p.GoesAhead)
	}
}

// heedPods watches notified pods, and their preemptors.
func (p *Plugin) heedPods(pods cache.SharedIndexInformer) error {
	if !p.notices.firstToFollow() {
		return nil
	}
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(old, object any) {
			before, known := old.(*corev1.Pod)
			after, ok := object.(*corev1.Pod)
			if known && ok {
				p.podMoves(before, after)
			}
		},
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if pod, ok := object.(*corev1.Pod); ok {
				p.podMoves(pod, nil)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("following pods that were told to leave: %w", err)
	}
	return nil
}

// podMoves handles an update of a pod; after is nil if it is gone.
func (p *Plugin) podMoves(before, after *corev1.Pod) {
	p.resume(before, after)
	if p.notices.isEmpty() {
		return
	}
	if after != nil && !lives(after) {
		after = nil
	}
	if told, is := p.notices.onPod(before.UID); is {
		p.victimMoves(told, before, after)
	}
	if before.Spec.NodeName != "" {
		return
	}
	for _, key := range p.keysOf(before) {
		wanted := key.UID == before.UID || before.Status.NominatedNodeName != "" || p.notices.placeOf(key, before.UID) != ""
		if isOver(before, after, wanted) {
			p.withdraw(key)
		}
	}
}

// victimMoves handles an update of a notified pod; after is nil if it has ended.
func (p *Plugin) victimMoves(told notice.Notice, before, after *corev1.Pod) {
	switch key := told.For.Key(); {
	case after == nil:
		p.notices.leave(before.UID)
		p.look(key)
	case told.Answered(after) && !told.Answered(before):
		p.look(key)
	}
}

// isOver reports whether a pod that had no place no longer waits for one: it has ended although it was wanted, it was bound, or its
// nomination was removed.
func isOver(before, after *corev1.Pod, wanted bool) bool {
	switch {
	case after == nil:
		return wanted
	case after.Spec.NodeName != "":
		return true
	}
	return before.Status.NominatedNodeName != "" && after.Status.NominatedNodeName == ""
}

// keysOf returns the keys under which a pod may be a preemptor.
func (p *Plugin) keysOf(pod *corev1.Pod) []notice.Key {
	keys := []notice.Key{podAsPreemptor(pod).Key()}
	if name, ok := p.groups.groupOf(pod); ok {
		keys = append(keys, keyOf(gang{group: name}))
		if owner := ownerOf(pod); owner != "" {
			keys = append(keys, keyOf(gang{group: name, owner: owner}))
		}
	}
	return keys
}

package coscheduling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/conflict"
)

const (
	// writers is how many requests of one gang are under way at a time, and patience how long all may take.
	writers  = 8
	patience = 30 * time.Second
	// foreseeing is how long the API server has to say whether it would bind the members of a gang. What it has not said by then, it allows.
	foreseeing = 5 * time.Second
	// again is how long after a write that failed a gang is tried once more, and twice as long each time, up to exhausted.
	again = time.Second
	// often is how long that is when the webhook is not believed any more that says it is busy.
	often = 4 * again
)

// carryOut asks whether all may leave that have to, nominates the members and then evicts, beside the scheduling of other pods.
// When that fails the gang is tried once more: what was done by then is seen on the pods.
func (p *Plugin) carryOut(g gang, move *clearance, members []*corev1.Pod, preemptor *corev1.Pod) {
	p.departures.begin(move.victims)
	if move.told == nil {
		p.places.begins(g)
	}
	p.writing.Add(1)
	go func() {
		defer p.writing.Add(-1)
		logger := klog.Background().WithValues("podGroup", klog.KRef(g.group.Namespace, g.group.Name))
		if refused := p.foreseeAll(members, move.to); refused != nil {
			p.standsBack(g, move, preemptor, refused)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		isRefusal := p.refusalFor(g)
		err := p.askAll(ctx, move.victims, isRefusal)
		if err == nil {
			err = p.each(ctx, members, func(ctx context.Context, pod *corev1.Pod) error { return p.writeNomination(ctx, pod, move.to[pod.UID]) })
		}
		gone := sets.New[types.UID]()
		if err == nil && p.hasPlace(members, move) {
			err = errUnwanted
		}
		if err == nil {
			gone, err = p.sendOff(ctx, g, move, members, preemptor, isRefusal)
		}
		p.departures.end(move.victims, gone.Has, p.now())
		p.countVictims(gone.Len())
		if err != nil {
			logger.Error(err, "Could not make room for a gang, which is tried once more")
			p.fallBack(g, move, members)
			return
		}
		p.places.carriedOut(g, p.now())
		logger.V(2).Info("Pods leave for a gang", "victims", len(move.victims), "members", len(move.to), "told", move.told != nil)
	}()
}

// fallBack has a gang tried once more for which not all have left: any of its members, as the one that was tried may be gone. If
// one is, none goes where they were to, and idle nodes among those are for others again.
func (p *Plugin) fallBack(g gang, move *clearance, members []*corev1.Pod) {
	if move.told != nil {
		p.withdraw(keyOf(g))
	}
	if !p.awaits(members, move) {
		p.nominate(nominatedBy(move, members), nil)
	}
	siblings := make(map[string]*corev1.Pod, len(members))
	for _, pod := range members {
		siblings[nameOf(pod).String()] = pod
	}
	time.AfterFunc(p.places.putsOff(g, p.now()), func() { p.handle.Activate(klog.Background(), siblings) })
}

// nominatedBy are members as they are when their nominations have been written, which no informer may have told of yet.
func nominatedBy(move *clearance, members []*corev1.Pod) []*corev1.Pod {
	written := make([]*corev1.Pod, len(members))
	for i, pod := range members {
		written[i] = pod.DeepCopy()
		written[i].Status.NominatedNodeName = move.to[pod.UID]
	}
	return written
}

// askAll has the API server say of each pod whether it may be evicted, before any is: who is let go for a gang that another
// pod keeps out is gone in vain. Those that it refuses are left alone for a while.
func (p *Plugin) askAll(ctx context.Context, victims []*corev1.Pod, isRefusal func(error) bool) error {
	var mu sync.Mutex
	var first error
	_ = p.each(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
		if err := p.ask(ctx, victim, isRefusal); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		}
		return nil // the others are asked all the same
	})
	return first
}

// ask has the API server say whether a pod may be evicted. An admission webhook that knows no such question is no refusal.
func (p *Plugin) ask(ctx context.Context, victim *corev1.Pod, isRefusal func(error) bool) error {
	if p.handle.GetWaitingPod(victim.UID) != nil {
		return nil
	}
	err := p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(victim.UID)), DryRun: []string{metav1.DryRunAll},
	})
	if err == nil || !isDenial(err) && (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)) {
		return nil
	}
	p.noteRefusal(victim, isRefusal(err))
	return fmt.Errorf("asking whether pod %s may be evicted: %w", klog.KObj(victim), err)
}

// noteRefusal has a pod left alone that the API server does not let go.
func (p *Plugin) noteRefusal(victim *corev1.Pod, refused bool) {
	if refused {
		p.departures.refuse(victim.UID, p.now())
	}
}

// isRefusal reports whether the API server has said no, which it would say again; not that it was not reached or is busy. A
// webhook that does not answer is an internal error.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnauthorized, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// isDenial reports whether an admission webhook has said no, with a status of its own choice: its type tells nothing. The text is
// the API server's own (ToStatusErr in pkg/admission/plugin/webhook/errors of k8s.io/apiserver).
func isDenial(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	text := status.Status().Message
	return strings.HasPrefix(text, "admission webhook ") && strings.Contains(text, " denied the request")
}

// refusalFor returns what tells a refusal. A webhook that has told a gang over and over that it is busy refuses.
func (p *Plugin) refusalFor(g gang) func(error) bool {
	if p.places.wasPutOff(g) < often {
		return isRefusal
	}
	return func(err error) bool { return isRefusal(err) || isDenial(err) }
}

// errUnwanted says that the gang has changed for which others were to leave.
var errUnwanted = errors.New("a member of the gang is gone, or has a place, meanwhile")

// evictAll evicts pods as long as that is wanted. It returns those that were evicted, or may have been.
func (p *Plugin) evictAll(ctx context.Context, victims []*corev1.Pod, why farewell, isRefusal func(error) bool, wanted func() bool) (sets.Set[types.UID], error) {
	var mu sync.Mutex
	gone := sets.New[types.UID]()
	err := p.each(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
		if !wanted() {
			return errUnwanted
		}
		err := p.evict(ctx, victim, why)
		refused := isRefusal(err)
		if p.noteRefusal(victim, refused); !refused {
			mu.Lock()
			defer mu.Unlock()
			gone.Insert(victim.UID)
		}
		return err
	})
	return gone, err
}

// awaits reports whether all members are there that are to come to places that others leave.
func (p *Plugin) awaits(members []*corev1.Pod, move *clearance) bool {
	return !slices.ContainsFunc(members, func(pod *corev1.Pod) bool { return move.to[pod.UID] != "" && !p.isThere(pod) })
}

// isThere reports whether a pod lives, as far as the scheduler knows.
func (p *Plugin) isThere(pod *corev1.Pod) bool {
	object, found, err := p.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	there, ok := object.(*corev1.Pod)
	return err == nil && found && ok && there.UID == pod.UID && lives(there)
}

// Settled reports whether nothing that was decided is to be written any more.
func (p *Plugin) Settled() bool { return p.writing.Load() == 0 }

// nominate has members nominated for nodes, and no others: a nomination that outlives its reason keeps others out.
func (p *Plugin) nominate(members []*corev1.Pod, to map[types.UID]string) {
	stale := slices.DeleteFunc(slices.Clone(members), func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName == to[pod.UID] })
	if len(stale) == 0 {
		return
	}
	p.writing.Add(1)
	go func() {
		defer p.writing.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.each(ctx, stale, func(ctx context.Context, pod *corev1.Pod) error { return p.writeNomination(ctx, pod, to[pod.UID]) }); err != nil {
			klog.Background().Error(err, "Could not end the nominations of a gang", "pod", klog.KObj(stale[0]))
		}
	}()
}

// keepNominated nominates all members where some are and others are not, as a write has failed.
func (p *Plugin) keepNominated(members []*corev1.Pod, to map[types.UID]string) {
	some, all := false, true
	for _, pod := range members {
		nominated := pod.Status.NominatedNodeName != ""
		some = some || nominated
		all = all && (nominated || to[pod.UID] == "")
	}
	if some && !all {
		p.nominate(members, to)
	}
}

func (p *Plugin) each(ctx context.Context, pods []*corev1.Pod, write func(context.Context, *corev1.Pod) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for _, pod := range pods {
		group.Go(func() error { return write(ctx, pod) })
	}
	return group.Wait() //nolint:wrapcheck // it is one of ours
}

// writeNomination writes on a pod where it is to go, "" for nowhere.
func (p *Plugin) writeNomination(ctx context.Context, pod *corev1.Pod, node string) error {
	if pod.Status.NominatedNodeName == node {
		return nil
	}
	status := map[string]any{"nominatedNodeName": nil}
	if node != "" {
		status["nominatedNodeName"] = node
	}
	return p.patchStatus(ctx, pod, types.MergePatchType, status)
}

// evict deletes a pod as kube-scheduler's own preemption does: it says why, and rejects one that waits in Permit.
func (p *Plugin) evict(ctx context.Context, victim *corev1.Pod, why farewell) error {
	if waits := p.handle.GetWaitingPod(victim.UID); waits != nil {
		waits.Reject(Name, "preempted")
		evictions.WithLabelValues(why.counts).Inc()
		return nil
	}
	if err := p.sayWhy(ctx, victim, why); err != nil {
		return err
	}
	pods := p.handle.ClientSet().CoreV1().Pods(victim.Namespace)
	err := conflict.Retry(retry.DefaultRetry, func() error {
		return pods.Delete(ctx, victim.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(victim.UID))})
	})
	if err != nil && !p.isGone(ctx, victim, err) {
		return fmt.Errorf("evicting pod %s: %w", klog.KObj(victim), err)
	}
	if err == nil {
		evictions.WithLabelValues(why.counts).Inc()
	}
	p.tellEvicted(victim, why)
	return nil
}

// patchStatus changes the status of a pod, unless it is gone or another of its name has come.
func (p *Plugin) patchStatus(ctx context.Context, pod *corev1.Pod, kind types.PatchType, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return fmt.Errorf("writing the status of pod %s: %w", klog.KObj(pod), err)
	}
	pods := p.handle.ClientSet().CoreV1().Pods(pod.Namespace)
	err = conflict.Retry(retry.DefaultRetry, func() error {
		_, err := pods.Patch(ctx, pod.Name, kind, patch, metav1.PatchOptions{}, "status")
		return err //nolint:wrapcheck // it is told apart by its kind
	})
	if err != nil && !p.isGone(ctx, pod, err) {
		return fmt.Errorf("changing the status of pod %s: %w", klog.KObj(pod), err)
	}
	return nil
}

// isGone reports whether a write failed because the pod is not there any more, or another of its name is. The API server says
// Conflict of that, and also when others write to the pod at the same time.
func (p *Plugin) isGone(ctx context.Context, pod *corev1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	there, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && there.UID != pod.UID
}

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
	// maxConcurrentWrites is how many requests of one gang run concurrently, and writeTimeout how long all of them may take.
	maxConcurrentWrites = 8
	writeTimeout        = 30 * time.Second
	// bindCheckTimeout is how long the API server has to say whether it would bind the members of a gang. No answer by then counts as yes.
	bindCheckTimeout = 5 * time.Second
	// firstWriteRetry is the delay before the first retry after a failed write. It doubles each time, up to baseBackoff.
	firstWriteRetry = time.Second
	// busyWebhookRetry is the delay from which on a webhook that reports to be busy counts as refusing.
	busyWebhookRetry = 4 * firstWriteRetry
)

// executePreemption checks that all victims may be evicted, nominates the members, and then evicts, concurrently with the scheduling of other
// pods. After a failure the gang is retried: the pods show what was done by then.
func (p *Plugin) executePreemption(g gang, move *preemptionCandidate, members []*corev1.Pod, preemptor *corev1.Pod) {
	p.departures.beginEvictions(move.victims)
	if move.notices == nil {
		p.gangStates.beginWrites(g)
	}
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		logger := klog.Background().WithValues("podGroup", klog.KRef(g.group.Namespace, g.group.Name))
		if refused := p.checkBindings(members, move.to); refused != nil {
			p.cancelPreemption(g, move, preemptor, refused)
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		isRefusal := p.refusalPredicate(g)
		err := p.dryRunEvictions(ctx, move.victims, isRefusal)
		if err == nil {
			err = p.forEachPod(ctx, members, func(ctx context.Context, pod *corev1.Pod) error { return p.writeNomination(ctx, pod, move.to[pod.UID]) })
		}
		gone := sets.New[types.UID]()
		if err == nil && p.hasPlacedMember(members, move) {
			err = errUnwanted
		}
		if err == nil {
			gone, err = p.evictVictims(ctx, g, move, members, preemptor, isRefusal)
		}
		p.departures.endEvictions(move.victims, gone.Has, p.now())
		p.countVictims(gone.Len())
		if err != nil {
			logger.Error(err, "Could not make room for a gang, which is tried once more")
			p.retryPreemption(g, move, members)
			return
		}
		p.gangStates.endWrites(g, p.now())
		logger.V(2).Info("Pods leave for a gang", "victims", len(move.victims), "members", len(move.to), "told", move.notices != nil)
	}()
}

// retryPreemption retries a gang whose preemption was not completed, by any of its members, because the one that was tried may be gone. If a
// member is gone, all nominations end, and idle nodes among them are free for other pods again.
func (p *Plugin) retryPreemption(g gang, move *preemptionCandidate, members []*corev1.Pod) {
	if move.notices != nil {
		p.withdrawNotices(preemptorKey(g))
	}
	if !p.areMembersAlive(members, move) {
		p.nominateMembers(withNominations(move, members), nil)
	}
	siblings := make(map[string]*corev1.Pod, len(members))
	for _, pod := range members {
		siblings[nameOf(pod).String()] = pod
	}
	time.AfterFunc(p.gangStates.backOffWrites(g, p.now()), func() { p.handle.Activate(klog.Background(), siblings) })
}

// withNominations returns members as they are after their nominations were written, which the informers may not show yet.
func withNominations(move *preemptionCandidate, members []*corev1.Pod) []*corev1.Pod {
	written := make([]*corev1.Pod, len(members))
	for i, pod := range members {
		written[i] = pod.DeepCopy()
		written[i].Status.NominatedNodeName = move.to[pod.UID]
	}
	return written
}

// dryRunEvictions dry-runs the eviction of all pods before any is evicted: evicting some pods for a gang that another pod keeps out would be in vain.
// Pods whose eviction the API server refuses are spared for a while.
func (p *Plugin) dryRunEvictions(ctx context.Context, victims []*corev1.Pod, isRefusal func(error) bool) error {
	var mu sync.Mutex
	var first error
	_ = p.forEachPod(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
		if err := p.dryRunEviction(ctx, victim, isRefusal); err != nil {
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
		}
		return nil // the remaining pods are still checked
	})
	return first
}

// dryRunEviction dry-runs the eviction of a pod. An admission webhook that does not support dry runs does not count as a refusal.
func (p *Plugin) dryRunEviction(ctx context.Context, victim *corev1.Pod, isRefusal func(error) bool) error {
	if p.handle.GetWaitingPod(victim.UID) != nil {
		return nil
	}
	err := p.handle.ClientSet().CoreV1().Pods(victim.Namespace).Delete(ctx, victim.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(victim.UID)), DryRun: []string{metav1.DryRunAll},
	})
	if err == nil || !isDenial(err) && (apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err)) {
		return nil
	}
	p.recordEvictionRefusal(victim, isRefusal(err))
	return fmt.Errorf("asking whether pod %s may be evicted: %w", klog.KObj(victim), err)
}

// recordEvictionRefusal spares a pod for a while if the API server refuses its eviction.
func (p *Plugin) recordEvictionRefusal(victim *corev1.Pod, refused bool) {
	if refused {
		p.departures.recordRefusal(victim.UID, p.now())
	}
}

// isRefusal reports whether the API server refused for good, and was not merely unreachable or busy. A webhook that does not answer is an
// internal error.
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

// isDenial reports whether an admission webhook denied the request. The webhook chooses the status, so its type says nothing. The text is the
// API server's own (ToStatusErr in pkg/admission/plugin/webhook/errors of k8s.io/apiserver).
func isDenial(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	text := status.Status().Message
	return strings.HasPrefix(text, "admission webhook ") && strings.Contains(text, " denied the request")
}

// refusalPredicate returns the predicate for refusals of a gang. A webhook that has repeatedly reported to be busy counts as refusing.
func (p *Plugin) refusalPredicate(g gang) func(error) bool {
	if p.gangStates.writeBackoff(g) < busyWebhookRetry {
		return isRefusal
	}
	return func(err error) bool { return isRefusal(err) || isDenial(err) }
}

// errUnwanted says that the gang changed while its preemption was under way.
var errUnwanted = errors.New("a member of the gang is gone, or has a place, meanwhile")

// evictAll evicts pods as long as that is wanted. It returns the pods that were evicted, or may have been.
func (p *Plugin) evictAll(ctx context.Context, victims []*corev1.Pod, why evictionReason, isRefusal func(error) bool, wanted func() bool) (sets.Set[types.UID], error) {
	var mu sync.Mutex
	gone := sets.New[types.UID]()
	err := p.forEachPod(ctx, victims, func(ctx context.Context, victim *corev1.Pod) error {
		if !wanted() {
			return errUnwanted
		}
		err := p.evictPod(ctx, victim, why)
		refused := isRefusal(err)
		if p.recordEvictionRefusal(victim, refused); !refused {
			mu.Lock()
			defer mu.Unlock()
			gone.Insert(victim.UID)
		}
		return err
	})
	return gone, err
}

// areMembersAlive reports whether all members with a planned place are still alive.
func (p *Plugin) areMembersAlive(members []*corev1.Pod, move *preemptionCandidate) bool {
	return !slices.ContainsFunc(members, func(pod *corev1.Pod) bool { return move.to[pod.UID] != "" && !p.isAlive(pod) })
}

// isAlive reports whether a pod is alive, as far as the scheduler knows.
func (p *Plugin) isAlive(pod *corev1.Pod) bool {
	object, found, err := p.pods.GetByKey(pod.Namespace + "/" + pod.Name)
	there, ok := object.(*corev1.Pod)
	return err == nil && found && ok && there.UID == pod.UID && isLive(there)
}

// Settled reports whether no writes are pending.
func (p *Plugin) Settled() bool { return p.pendingWrites.Load() == 0 }

// nominateMembers sets the nominations of members, and removes all others: a nomination that outlives its reason keeps other pods out.
func (p *Plugin) nominateMembers(members []*corev1.Pod, to map[types.UID]string) {
	stale := slices.DeleteFunc(slices.Clone(members), func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName == to[pod.UID] })
	if len(stale) == 0 {
		return
	}
	p.pendingWrites.Add(1)
	go func() {
		defer p.pendingWrites.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		defer cancel()
		if err := p.forEachPod(ctx, stale, func(ctx context.Context, pod *corev1.Pod) error { return p.writeNomination(ctx, pod, to[pod.UID]) }); err != nil {
			klog.Background().Error(err, "Could not end the nominations of a gang", "pod", klog.KObj(stale[0]))
		}
	}()
}

// keepNominated nominates all members if only some are nominated, after a failed write.
func (p *Plugin) keepNominated(members []*corev1.Pod, to map[types.UID]string) {
	some, all := false, true
	for _, pod := range members {
		nominated := pod.Status.NominatedNodeName != ""
		some = some || nominated
		all = all && (nominated || to[pod.UID] == "")
	}
	if some && !all {
		p.nominateMembers(members, to)
	}
}

func (p *Plugin) forEachPod(ctx context.Context, pods []*corev1.Pod, write func(context.Context, *corev1.Pod) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentWrites)
	for _, pod := range pods {
		group.Go(func() error { return write(ctx, pod) })
	}
	return group.Wait() //nolint:wrapcheck // it is one of ours
}

// writeNomination sets the nominated node of a pod, "" for none.
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

// evictPod deletes a pod the way kube-scheduler's own preemption does: it writes the reason, and rejects a pod that waits in Permit.
func (p *Plugin) evictPod(ctx context.Context, victim *corev1.Pod, why evictionReason) error {
	if waits := p.handle.GetWaitingPod(victim.UID); waits != nil {
		waits.Reject(Name, "preempted")
		evictions.WithLabelValues(why.metricLabel).Inc()
		return nil
	}
	if err := p.writeEvictionReason(ctx, victim, why); err != nil {
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
		evictions.WithLabelValues(why.metricLabel).Inc()
	}
	p.recordEviction(victim, why)
	return nil
}

// patchStatus patches the status of a pod, unless the pod is gone or replaced by another of its name.
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

// isGone reports whether a write failed because the pod is gone, or another pod has its name. The API server returns Conflict for that, and also
// for concurrent writes to the pod.
func (p *Plugin) isGone(ctx context.Context, pod *corev1.Pod, err error) bool {
	if !apierrors.IsConflict(err) {
		return apierrors.IsNotFound(err)
	}
	there, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && there.UID != pod.UID
}

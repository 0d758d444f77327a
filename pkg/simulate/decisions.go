package simulate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
)

// recorded is a decision of a recording: where a pod was placed, from its binding, and when that was decided.
type recorded struct {
	pod *corev1.Pod
	// number is that of the attempt among all of the scheduler, seen the last change of a pod that it knew of. Between decision and binding, other
	// pods are decided and pods leave.
	number, seen int64
}

// recordedDecisions returns the decisions of a recording in the order in which they were made. If a scheduler does not report the time, the decision counts
// as made when the pod was bound.
func recordedDecisions(rec *recording.Recording) []recorded {
	came := map[types.UID]int64{} // with which revision
	placed := map[types.UID]bool{}
	for _, pod := range rec.Pods {
		came[pod.UID], placed[pod.UID] = 0, pod.Spec.NodeName != ""
	}
	var all []recorded
	for i := range rec.Events {
		event := &rec.Events[i]
		if event.Pod == nil {
			continue
		}
		pod := event.Pod
		if _, known := came[pod.UID]; !known {
			came[pod.UID] = event.Revision
		}
		if pod.Spec.NodeName != "" && !placed[pod.UID] {
			placed[pod.UID] = true
			all = append(all, decisionAbout(event, came[pod.UID]))
		}
	}
	slices.SortStableFunc(all, func(a, b recorded) int {
		return cmp.Or(cmp.Compare(a.seen, b.seen), cmp.Compare(a.number, b.number))
	})
	return all
}

// decisionAbout returns the decision that led to a binding, about a pod with a revision.
func decisionAbout(binding *recording.Event, came int64) recorded {
	number, seen, _ := strings.Cut(binding.Pod.Annotations[names.AnnotationDecision], "/")
	decision := recorded{pod: binding.Pod, seen: binding.Revision - 1}
	decision.number, _ = strconv.ParseInt(number, 10, 64) // 0 where it does not tell
	if revision, err := strconv.ParseInt(seen, 10, 64); err == nil {
		// A scheduler that decides about a pod knows at least that it exists.
		decision.seen = min(max(revision, came), decision.seen)
	}
	return decision
}

package simulate

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
)

// made is a decision of a recording: where a pod was put, as its binding tells, and when that was decided.
type made struct {
	pod *corev1.Pod
	// number is that of the attempt among all of the scheduler, seen the last change of a pod that it knew of. Between
	// decision and binding, others are decided and pods leave.
	number, seen int64
}

// decisionsOf returns the decisions of a recording in the order in which they were made. Those of schedulers that do
// not tell are taken for made when the pod was bound.
func decisionsOf(rec *recording.Recording) []made {
	var all []made
	placed, came := map[types.UID]bool{}, map[types.UID]int64{}
	for _, pod := range rec.Pods {
		placed[pod.UID], came[pod.UID] = pod.Spec.NodeName != "", 0
	}
	for i := range rec.Events {
		event := &rec.Events[i]
		if event.Pod == nil {
			continue
		}
		uid := event.Pod.UID
		if _, known := came[uid]; !known {
			came[uid] = event.Revision
		}
		if event.Pod.Spec.NodeName != "" && !placed[uid] {
			placed[uid] = true
			all = append(all, decisionAbout(event, came[uid]))
		}
	}
	slices.SortStableFunc(all, func(a, b made) int { return cmp.Or(cmp.Compare(a.seen, b.seen), cmp.Compare(a.number, b.number)) })
	return all
}

// decisionAbout returns the decision that a binding came of, about a pod that came with a revision.
func decisionAbout(binding *recording.Event, came int64) made {
	decision := made{pod: binding.Pod, seen: binding.Revision - 1}
	number, seen, _ := strings.Cut(binding.Pod.Annotations[names.AnnotationDecision], "/")
	decision.number, _ = strconv.ParseInt(number, 10, 64) // 0 where it does not tell
	if revision, err := strconv.ParseInt(seen, 10, 64); err == nil {
		// Whoever decides about a pod knows that it is there, whatever else it knows.
		decision.seen = min(max(revision, came), decision.seen)
	}
	return decision
}

// underWay is how many changes may come between a refusal and its report.
const underWay = 16

// departure is a pod that left with an event.
type departure struct {
	pod   *corev1.Pod
	event int
}

// refuse tries a pod that was refused. What left just before that was known may still have been there.
func (v *verifier) refuse(ctx context.Context, pod *corev1.Pod) error {
	if _, ours := v.engine.profileOf(pod); !ours {
		return nil
	}
	v.result.Refusals++
	got, err := v.chooseNext(ctx, pod)
	if err == nil && got.Node != "" {
		if again, retryErr := v.chooseBeside(ctx, pod); again.Node == "" {
			got, err = again, retryErr
			v.result.JustLeft++
		}
	}
	switch {
	case err != nil:
		return err
	case got.Node == "":
		v.result.SameRefusals++
	default:
		v.result.Differences = append(v.result.Differences, Difference{Pod: got.Pod, Recorded: Decision{Pod: got.Pod}, Simulated: got})
	}
	return nil
}

// chooseNext decides about a pod in the attempt after the last recorded one. How many attempts found no node in between is
// not recorded, and numbers beyond that of the next decision would have the learner of the demand begin anew.
func (v *verifier) chooseNext(ctx context.Context, pod *corev1.Pod) (Decision, error) {
	v.engine.attempts.Set(v.number)
	got, _, err := v.engine.choose(ctx, pod)
	return got, err
}

// chooseBeside decides about a pod as if those who left last were still there.
func (v *verifier) chooseBeside(ctx context.Context, pod *corev1.Pod) (Decision, error) {
	v.departed = slices.DeleteFunc(v.departed, func(d departure) bool { return d.event < v.event-underWay })
	for _, d := range v.departed {
		if err := v.engine.put(d.pod); err != nil {
			return Decision{}, err
		}
	}
	got, err := v.chooseNext(ctx, pod)
	for _, d := range v.departed {
		if err := v.engine.remove(ctx, d.pod); err != nil {
			return Decision{}, err
		}
	}
	return got, err
}

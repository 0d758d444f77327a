package diagnosis

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// explainEvictionNotice reports that a job is about to be preempted and has time to save its work.
func explainEvictionNotice(f *Facts) []Finding {
	var last notice.Notice
	pods, saved := 0, 0
	for i := range f.Pods {
		pod := &f.Pods[i]
		told, ok := notice.FromPod(pod)
		if !ok || !isActive(pod) || pod.Spec.NodeName == "" {
			continue
		}
		if pods++; told.IsAnswered(pod) {
			saved++
		}
		if told.Until.After(last.Until) {
			last = told
		}
	}
	if pods == 0 {
		return nil
	}
	who, _ := f.describeEvictor(last.For.Namespace + "/" + last.For.Pod)
	out := Finding{
		Cause: reason.EvictionNotified,
		Message: phrase.Textf("told at %s that it is to leave by %s for %s, which has a higher priority; %d of %d pods have saved their work since",
			f.clockText(last.At), f.clockText(last.Until), who, saved, pods),
		Steps: []Step{waitStep("wait: the job starts again by itself, before all others of its priority")},
	}
	if saved < pods {
		say := fmt.Sprintf(`kubectl annotate pods -n %s -l %s=%s --overwrite %s="$(date -u +%%FT%%TZ)"`,
			f.Job.Namespace, names.LabelJob, f.Job.Name, names.AnnotationCheckpointedAt)
		out.Steps = append([]Step{{Action: reason.Inspect, Command: say, Message: phrase.Textf(
			"have it save its work, as what comes after is lost; if it does not say so itself, do it then: %s", say)}}, out.Steps...)
	}
	return singleFinding(out)
}

// clockText formats a time of today for the user's clock.
func (f *Facts) clockText(at time.Time) string {
	return at.In(f.Cluster.Now.Location()).Format("15:04:05")
}

// explainPendingEvictions explains a pod whose victims were notified and have time to save their work. The victims show this at once, the scheduler's message
// only after its next attempt.
func (s *search) explainPendingEvictions(verdict string) (Finding, bool) {
	pod := s.request.Pod
	if pod.Status.NominatedNodeName == "" {
		return Finding{}, false
	}
	said := verdictFindings(verdict, pod.Namespace, []*reason.Reason{reason.EvictionPending})
	if len(said) > 0 {
		return said[0], true
	}
	var until time.Time
	for _, holder := range s.holders[pod.Status.NominatedNodeName] {
		if told, ok := notice.FromPod(holder); ok && isPreemptorOf(told.For, pod) && told.Until.After(until) {
			until = told.Until
		}
	}
	if until.IsZero() {
		return Finding{}, false
	}
	found := reason.EvictionPending.FoundWith(until.UTC().Format(time.RFC3339))
	return Finding{Cause: found.Cause, Message: found.FillText(found.Message, pod.Namespace), Steps: foundSteps(found, pod.Namespace)}, true
}

// isPreemptorOf reports whether victims are evicted for a pod, or for its gang.
func isPreemptorOf(by notice.Preemptor, pod *corev1.Pod) bool {
	return by.Namespace == pod.Namespace && (by.Group == "" && by.UID == pod.UID || by.Group != "" && slices.ContainsFunc(gang.NamesFor(pod), func(name types.NamespacedName) bool { return name.Name == by.Group }))
}

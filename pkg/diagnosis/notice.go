package diagnosis

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// toldToLeave reports that a job is about to be preempted and has time to save its work.
func toldToLeave(f *Facts) []Finding {
	var last notice.Notice
	pods, saved := 0, 0
	for i := range f.Pods {
		pod := &f.Pods[i]
		told, ok := notice.Of(pod)
		if !ok || !lives(pod) || pod.Spec.NodeName == "" {
			continue
		}
		if pods++; told.Answered(pod) {
			saved++
		}
		if told.Until.After(last.Until) {
			last = told
		}
	}
	if pods == 0 {
		return nil
	}
	who, _ := f.whoIs(last.For.Namespace + "/" + last.For.Pod)
	out := Finding{
		Cause: reason.ToldToLeave,
		Says: phrase.Of("told at %s that it is to leave by %s for %s, which has a higher priority; %d of %d pods have saved their work since",
			f.clock(last.At), f.clock(last.Until), who, saved, pods),
		Steps: []Step{waiting("wait: the job starts again by itself, before all others of its priority")},
	}
	if saved < pods {
		say := fmt.Sprintf(`kubectl annotate pods -n %s -l %s=%s --overwrite %s="$(date -u +%%FT%%TZ)"`,
			f.Job.Namespace, names.LabelJob, f.Job.Name, names.AnnotationCheckpointedAt)
		out.Steps = append([]Step{{Action: reason.Inspect, Command: say, Says: phrase.Of(
			"have it save its work, as what comes after is lost; if it does not say so itself, do it then: %s", say)}}, out.Steps...)
	}
	return one(out)
}

// clock formats a time of today for the user's clock.
func (f *Facts) clock(at time.Time) string { return at.In(f.Cluster.Now.Location()).Format("15:04:05") }

// roomIsComing explains a pod whose victims were notified and have time to save their work. The victims show this at once, the scheduler's message
// only after its next attempt.
func (s *search) roomIsComing(verdict string) (Finding, bool) {
	pod := s.request.Pod
	if pod.Status.NominatedNodeName == "" {
		return Finding{}, false
	}
	said := findings(verdict, pod.Namespace, []*reason.Reason{reason.RoomIsComing})
	if len(said) > 0 {
		return said[0], true
	}
	var until time.Time
	for _, holder := range s.holders[pod.Status.NominatedNodeName] {
		if told, ok := notice.Of(holder); ok && isFor(told.For, pod) && told.Until.After(until) {
			until = told.Until
		}
	}
	if until.IsZero() {
		return Finding{}, false
	}
	found := reason.RoomIsComing.With(until.UTC().Format(time.RFC3339))
	return Finding{Cause: found.Cause, Says: found.Fill(found.Says, pod.Namespace), Steps: stepsOf(found, pod.Namespace)}, true
}

// isFor reports whether victims are evicted for a pod, or for its gang.
func isFor(by notice.Preemptor, pod *corev1.Pod) bool {
	return by.Namespace == pod.Namespace && (by.Group == "" && by.UID == pod.UID || by.Group != "" && by.Group == pod.Labels[names.LabelPodGroup])
}

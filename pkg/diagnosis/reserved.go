package diagnosis

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// closedTo returns the nodes that reservations close to a pod, as the scheduler sees it.
func closedTo(f *Facts, pod *corev1.Pod) *reservation.Closed {
	return reservation.BookOf(f.Cluster.GPUReservations).Against(pod, f.Cluster.Now)
}

// unseen returns the scheduler's reasons that none of the objects read shows. If the user may read reservations, they show which nodes are reserved,
// and also when a node no longer is.
func (s *search) unseen() []*reason.Reason {
	if !s.facts.Cluster.Has(snapshot.PartGPUReservations) {
		return reason.OfNodes
	}
	return slices.DeleteFunc(slices.Clone(reason.OfNodes), func(r *reason.Reason) bool { return r == reason.Reserved })
}

// headroom is the time for recreating and placing a job with the advised limit.
const headroom = 5 * time.Minute

// reserved describes nodes that a reservation closes to the job.
func (s *search) reserved(out *Finding, name string) {
	all := s.facts.Cluster.GPUReservations
	i := slices.IndexFunc(all, func(r names.GPUReservation) bool { return r.Name == name })
	window, pod, now := reservation.Of(&all[i]), s.request.Pod, s.facts.Cluster.Now
	out.Says = phrase.Of("%s kept from %s to %s by GPUReservation %s", nodeWord(out.Nodes), s.moment(window.From), s.moment(window.To), name)
	if len(window.Namespaces) == 0 {
		out.Says = out.Says.And(", for maintenance")
	} else {
		out.Says = out.Says.And(", for namespaces %s", listOf(window.Namespaces))
	}
	if window.Reason != "" {
		out.Says = out.Says.And(" (%s)", window.Reason)
	}
	if window.From.After(now) {
		if _, limited := reservation.Stay(pod); limited {
			out.Says = out.Says.And("; within its time limit the job could still run then")
		} else {
			out.Says = out.Says.And("; without a time limit the job could still run then")
		}
	}
	if limit := reservation.Limit(pod, now.Add(headroom), window.From); limit > 0 && s.facts.Job.Kind == string(workload.KindTraining) {
		text := workload.DurationText(limit)
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldTimeLimit, Value: text,
			Says: phrase.Of("if it can end before, set resources.time-limit to at most %s", text)})
	}
	others, opens := s.afterwards(name)
	if len(others) == 0 {
		out.Steps = append(out.Steps, waiting("wait: this reservation ends at %s", s.moment(window.To)))
		return
	}
	for _, other := range others[:min(mostOthers, len(others))] {
		out.Says = out.Says.And("; then kept from %s to %s by GPUReservation %s", s.moment(other.From), s.moment(other.To), other.Name)
	}
	if more := len(others) - mostOthers; more > 0 {
		out.Says = out.Says.And("; and by %d more", more)
	}
	out.Steps = append(out.Steps, waiting("wait: the last of these reservations ends at %s", s.moment(opens)))
}

// mostOthers is how many reservations a sentence names in addition to the first.
const mostOthers = 3

// afterwards returns the other reservations that close a node to the pod after the first ends, and when no reservation closes it any longer. It
// considers the node of the first reservation that opens soonest.
func (s *search) afterwards(first string) (others []*reservation.Window, opens time.Time) {
	for i := range s.judged {
		if !slices.ContainsFunc(s.judged[i].blockers, func(b blocker) bool { return b.cause == reason.ReservedNode && b.what == first }) {
			continue
		}
		windows, at := s.request.Closed.Until(s.judged[i].node)
		if opens.IsZero() || at.Before(opens) {
			others, opens = windows, at
		}
	}
	return slices.DeleteFunc(others, func(w *reservation.Window) bool { return w.Name == first }), opens
}

// moment is a time by the clock of the user.
func (s *search) moment(at time.Time) string {
	return at.In(s.facts.Cluster.Now.Location()).Format("2006-01-02 15:04 MST")
}

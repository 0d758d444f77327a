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

// nodesClosedTo returns the nodes that reservations close to a pod, as the scheduler sees it.
func nodesClosedTo(f *Facts, pod *corev1.Pod) *reservation.ClosedWindows {
	return reservation.BookOf(f.Cluster.GPUReservations).ClosedFor(pod, f.Cluster.Now)
}

// reasonsNotShown returns the scheduler's reasons that none of the objects read shows. If the user may read reservations, they show which nodes are reserved,
// and also when a node no longer is.
func (s *search) reasonsNotShown() []*reason.Reason {
	if !s.facts.Cluster.HasPart(snapshot.PartGPUReservations) {
		return reason.NodeReasons
	}
	return slices.DeleteFunc(slices.Clone(reason.NodeReasons), func(r *reason.Reason) bool { return r == reason.Reserved })
}

// timeLimitHeadroom is the time for recreating and placing a job with the advised limit.
const timeLimitHeadroom = 5 * time.Minute

// describeReservation describes nodes that a reservation closes to the job.
func (s *search) describeReservation(out *Finding, name string) {
	all := s.facts.Cluster.GPUReservations
	i := slices.IndexFunc(all, func(r names.GPUReservation) bool { return r.Name == name })
	window, pod, now := reservation.WindowOf(&all[i]), s.request.Pod, s.facts.Cluster.Now
	out.Message = phrase.Textf("%s kept from %s to %s by GPUReservation %s", nodeWord(out.Nodes), s.formatTime(window.From), s.formatTime(window.To), name)
	if len(window.Namespaces) == 0 {
		out.Message = out.Message.Addf(", for maintenance")
	} else {
		out.Message = out.Message.Addf(", for namespaces %s", joinList(window.Namespaces))
	}
	if window.Reason != "" {
		out.Message = out.Message.Addf(" (%s)", window.Reason)
	}
	if window.From.After(now) {
		if _, limited := reservation.MaxStay(pod); limited {
			out.Message = out.Message.Addf("; within its time limit the job could still run then")
		} else {
			out.Message = out.Message.Addf("; without a time limit the job could still run then")
		}
	}
	if limit := reservation.LongestTimeLimit(pod, now.Add(timeLimitHeadroom), window.From); limit > 0 && s.facts.Job.Kind == string(workload.KindTraining) {
		text := workload.DurationText(limit)
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldTimeLimit, Value: text,
			Message: phrase.Textf("if it can end before, set resources.time-limit to at most %s", text)})
	}
	others, opens := s.reservationsAfter(name)
	if len(others) == 0 {
		out.Steps = append(out.Steps, waitStep("wait: this reservation ends at %s", s.formatTime(window.To)))
		return
	}
	for _, other := range others[:min(maxOtherReservations, len(others))] {
		out.Message = out.Message.Addf("; then kept from %s to %s by GPUReservation %s", s.formatTime(other.From), s.formatTime(other.To), other.Name)
	}
	if more := len(others) - maxOtherReservations; more > 0 {
		out.Message = out.Message.Addf("; and by %d more", more)
	}
	out.Steps = append(out.Steps, waitStep("wait: the last of these reservations ends at %s", s.formatTime(opens)))
}

// maxOtherReservations is how many reservations a sentence names in addition to the first.
const maxOtherReservations = 3

// reservationsAfter returns the other reservations that close a node to the pod after the first ends, and when no reservation closes it any longer. It
// considers the node of the first reservation that opens soonest.
func (s *search) reservationsAfter(first string) (others []*reservation.Window, opens time.Time) {
	for i := range s.judged {
		if !slices.ContainsFunc(s.judged[i].blockers, func(b blocker) bool { return b.cause == reason.ReservedNode && b.what == first }) {
			continue
		}
		windows, at := s.request.Closed.OpensAt(s.judged[i].node)
		if opens.IsZero() || at.Before(opens) {
			others, opens = windows, at
		}
	}
	return slices.DeleteFunc(others, func(w *reservation.Window) bool { return w.Name == first }), opens
}

// formatTime is a time by the clock of the user.
func (s *search) formatTime(at time.Time) string {
	return at.In(s.facts.Cluster.Now.Location()).Format("2006-01-02 15:04 MST")
}

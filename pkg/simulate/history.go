package simulate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/simulate/recording"
)

// FromRecording returns what a recording began with, and who came to it: when they did, for as long as they ran. What
// ran at the beginning ends when it did. Pods that were never placed come as well; they leave when they were deleted.
// Nodes that came later are there from the beginning, and none leaves. Pods that came with a node, or for another
// scheduler, are left out.
func FromRecording(rec *recording.Recording, schedulers []string) (Cluster, []Arrival) {
	cluster, waiting := clusterOf(rec)
	stays := staysOf(rec)
	cluster.Ends = map[types.UID]time.Duration{}
	for _, pod := range cluster.Pods {
		if stay := stays[pod.UID]; !stay.left.IsZero() {
			cluster.Ends[pod.UID] = stay.left.Sub(rec.Start)
		}
	}
	groups := map[types.NamespacedName]*gangsv1.PodGroup{}
	for _, group := range cluster.Groups {
		groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = group
	}
	var arrivals []Arrival
	come := func(pod *corev1.Pod, at time.Time) {
		if !slices.Contains(schedulers, pod.Spec.SchedulerName) {
			return
		}
		arrivals = append(arrivals, Arrival{Pod: waitingAgain(pod), Group: groups[groupOf(pod)], At: at.Sub(rec.Start)}.staying(stays[pod.UID], rec.Start))
	}
	known := map[types.UID]bool{}
	for _, pod := range waiting {
		known[pod.UID] = true
		come(pod, rec.Start)
	}
	for i := range rec.Events {
		event := &rec.Events[i]
		switch {
		case event.Node != nil && event.Type == watch.Added:
			if !slices.ContainsFunc(cluster.Nodes, func(n *corev1.Node) bool { return n.Name == event.Node.Name }) {
				cluster.Nodes = append(slices.Clip(cluster.Nodes), event.Node)
			}
		case event.Pod != nil && event.Type == watch.Added && event.Pod.Spec.NodeName == "" && !known[event.Pod.UID]:
			known[event.Pod.UID] = true
			come(event.Pod, event.At)
		}
	}
	slices.SortStableFunc(arrivals, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return cluster, arrivals
}

// stay is when a pod got its node, and when it ended or was deleted. Zero is never.
type stay struct{ bound, left time.Time }

func staysOf(rec *recording.Recording) map[types.UID]stay {
	stays := map[types.UID]stay{}
	for i := range rec.Events {
		event := &rec.Events[i]
		if event.Pod == nil {
			continue
		}
		s := stays[event.Pod.UID]
		if s.bound.IsZero() && event.Pod.Spec.NodeName != "" {
			s.bound = event.At
		}
		if s.left.IsZero() && (event.Type == watch.Deleted || ended(event.Pod)) {
			s.left = event.At
		}
		stays[event.Pod.UID] = s
	}
	return stays
}

// staying returns an arrival that runs for as long as it did, or leaves when it did.
func (a Arrival) staying(s stay, start time.Time) Arrival {
	switch {
	case s.left.IsZero():
	case s.bound.IsZero():
		a.Until = s.left.Sub(start)
	default:
		a.Lifetime = max(s.left.Sub(s.bound), time.Millisecond)
	}
	return a
}

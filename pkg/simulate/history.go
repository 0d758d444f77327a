package simulate

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/simulate/recording"
)

// FromRecording returns the initial cluster of a recording, and the arrivals with their recorded times and lifetimes. Pods that ran at the beginning
// end when they did. Pods that were never placed arrive as well, and leave when they were deleted. Nodes that joined later are there from the
// beginning, and none leaves. Pods that arrived with a node, or for another scheduler, are omitted.
func FromRecording(rec *recording.Recording, schedulers []string) (Cluster, []Arrival) {
	cluster, waiting := initialCluster(rec)
	cluster.Began = rec.Start
	stays := podIntervals(rec)
	cluster.Ends = map[types.UID]time.Duration{}
	for _, pod := range cluster.Pods {
		if stay := stays[pod.UID]; !stay.left.IsZero() {
			cluster.Ends[pod.UID] = stay.left.Sub(rec.Start)
		}
	}
	h := recordedArrivals{start: rec.Start, schedulers: schedulers, stays: stays, known: map[types.UID]bool{}, groups: map[types.NamespacedName]*gangsv1.PodGroup{}}
	for _, group := range cluster.Groups {
		h.groups[types.NamespacedName{Namespace: group.Namespace, Name: group.Name}] = group
	}
	for _, pod := range waiting {
		h.addPod(pod, rec.Start)
	}
	for i := range rec.Events {
		event := &rec.Events[i]
		switch {
		case event.Type != watch.Added:
		case event.Node != nil:
			cluster.Nodes = withNode(cluster.Nodes, event.Node)
		case event.Pod != nil && event.Pod.Spec.NodeName == "":
			h.addPod(event.Pod, event.At)
		}
	}
	slices.SortStableFunc(h.all, func(a, b Arrival) int { return cmp.Compare(a.At, b.At) })
	return cluster, h.all
}

// withNode adds a node to a list that may be shared, unless one of its name is there.
func withNode(nodes []*corev1.Node, node *corev1.Node) []*corev1.Node {
	if slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Name == node.Name }) {
		return nodes
	}
	return append(slices.Clip(nodes), node)
}

// recordedArrivals are the pods that come in a recording.
type recordedArrivals struct {
	start      time.Time
	schedulers []string
	groups     map[types.NamespacedName]*gangsv1.PodGroup
	stays      map[types.UID]podInterval
	known      map[types.UID]bool
	all        []Arrival
}

// addPod adds a pod that one of the schedulers is to place, once.
func (c *recordedArrivals) addPod(pod *corev1.Pod, at time.Time) {
	if c.known[pod.UID] || !slices.Contains(c.schedulers, pod.Spec.SchedulerName) {
		return
	}
	c.known[pod.UID] = true
	arrival := Arrival{Pod: asPending(pod), Group: c.groups[podGang(pod)], At: at.Sub(c.start)}
	c.all = append(c.all, arrival.withDuration(c.stays[pod.UID], c.start))
}

// podInterval is when a pod got its node, and when it ended or was deleted. Zero is never.
type podInterval struct{ bound, left time.Time }

func podIntervals(rec *recording.Recording) map[types.UID]podInterval {
	stays := map[types.UID]podInterval{}
	for i := range rec.Events {
		event := &rec.Events[i]
		if event.Pod == nil {
			continue
		}
		s := stays[event.Pod.UID]
		if s.bound.IsZero() && event.Pod.Spec.NodeName != "" {
			s.bound = event.At
		}
		if s.left.IsZero() && (event.Type == watch.Deleted || gpu.HasEnded(event.Pod)) {
			s.left = event.At
		}
		stays[event.Pod.UID] = s
	}
	return stays
}

// withDuration returns an arrival with its recorded lifetime or departure.
func (a Arrival) withDuration(s podInterval, start time.Time) Arrival {
	switch {
	case s.left.IsZero():
	case s.bound.IsZero():
		a.Until = s.left.Sub(start)
	default:
		a.Lifetime = max(s.left.Sub(s.bound), time.Millisecond)
	}
	return a
}

// Package recording writes down what happens to the nodes, pods and PodGroups of a cluster while it happens, and reads it
// again: what was there, who came, where the scheduler put them, and when they left. A simulation can then do the same
// again, or try what another configuration would have done.
//
// A recording is a text of one JSON object a line, events as Kubernetes' watches have them, with the time at which each
// was seen:
//
//	{"at":"2026-03-02T09:00:00.1Z","type":"ADDED","object":{"kind":"Pod",...}}
//
// It begins with all objects that there are, as ADDED, and a BOOKMARK. What no scheduler looks at is left out: commands
// and environments of containers, above all, since recordings are passed on. What a ledger says of how long jobs have run, by which the
// scheduler may promise starts, comes before the BOOKMARK as one object of kind RunList, without the names of users.
package recording

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	gangsv1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

// Event is one change. One of Pod, Node and Group is set.
type Event struct {
	Type watch.EventType
	// At is when it was seen, Revision its place in the order in which the API server stored all changes.
	At       time.Time
	Revision int64

	Pod   *corev1.Pod
	Node  *corev1.Node
	Group *gangsv1.PodGroup
}

// Recording is the initial state, and all changes in order of revision.
type Recording struct {
	Start time.Time

	Nodes  []*corev1.Node
	Pods   []*corev1.Pod
	Groups []*gangsv1.PodGroup
	// Runs are for how long jobs had run by then, from a ledger; empty without one.
	Runs []ledger.Run

	Events []Event
}

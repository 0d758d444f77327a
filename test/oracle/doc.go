// Package oracle judges a scheduler by what it did: it replays all changes of pods and nodes in the order in which the
// API server stored them, and holds the promises of placement against the state after each one.
//
// [Watch] records the changes; [Check] and [Lost] judge them by pod, and Check by whom pods left for, [Doubled] and [Tears] by job and gang. The
// judgement is pure and shares no arithmetic with the scheduler: from pkg/gpu it takes the formats of annotations and nothing of how cards are
// counted or chosen.
package oracle

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Event is one change of one pod or one node.
type Event struct {
	// Revision is the store's, which all objects share.
	Revision int64
	// Seen is when the recorder got to know of it. No rule of placement depends on it; how long something lasted is told by it.
	Seen time.Time
	// Type is Added, Modified or Deleted.
	Type watch.EventType
	// Pod or Node is the object after the change, or as it was last when it is deleted. The other is nil.
	Pod  *corev1.Pod
	Node *corev1.Node
}

// History is changes in the order of their revisions, without a gap.
type History []Event

// Binding is a pod's coming to a node.
type Binding struct {
	Revision  int64
	Seen      time.Time
	Pod, Node string
	// Epoch is the leadership that bound it, "" if it names none.
	Epoch string
}

// Bindings returns the first binding of each pod that was bound while the history was recorded.
func (h History) Bindings() []Binding {
	var bindings []Binding
	bound := map[string]bool{}
	for i := range h {
		pod := h[i].Pod
		if pod == nil || pod.Spec.NodeName == "" || bound[string(pod.UID)] {
			continue
		}
		bound[string(pod.UID)] = true
		if h[i].Type == watch.Modified {
			bindings = append(bindings, Binding{
				Revision: h[i].Revision, Seen: h[i].Seen, Pod: nameOf(pod), Node: pod.Spec.NodeName,
				Epoch: pod.Annotations[names.AnnotationEpoch],
			})
		}
	}
	return bindings
}

// Rule is a promise of the scheduler.
type Rule string

// The rules, worded as their violation.
const (
	// TwoHolders: whole cards have one holder.
	TwoHolders Rule = "two pods hold the card whole"
	// Mixed: a card is whole or shared.
	Mixed Rule = "pods hold the card whole and shared"
	// OverMemory: shares fit into a card.
	OverMemory Rule = "the shares exceed the card's memory"
	// SliceTwice: MIG slices have one holder.
	SliceTwice Rule = "two pods hold the MIG slice"
	// CardAndSlice: a card is given out as such, or as its MIG slices.
	CardAndSlice Rule = "pods hold the card and a MIG slice of it"
	// OverAllocatable: pods fit on a node by count.
	OverAllocatable Rule = "the pods hold more than the node offers"
	// Moved: a pod is bound once.
	Moved Rule = "the pod left its node"
	// Rewritten: cards are chosen once.
	Rewritten Rule = "the pod's cards changed after it was bound"
	// Unfounded: cards and MIG slices are named, as many as asked for, and exist; slices where their node tells which it has.
	Unfounded Rule = "the pod's cards are not what it asks for"
	// Stale: once a leader has bound a pod, those before it bind none. It holds as long as nobody deletes the Lease,
	// with which the count of leaderships starts again.
	Stale Rule = "the pod was bound by a leader whose time was over"
	// LostPod: what is submitted is placed.
	LostPod Rule = "the pod is lost"
	// Twice: of a Job, each member is run by one pod.
	Twice Rule = "two pods stood for one member of a job"
	// Vain: who leaves for others makes room for them.
	Vain Rule = "pods left for others, and none of those started in their place"
)

// Violation is a broken rule, at the first revision at which it was broken.
type Violation struct {
	Revision int64
	Rule     Rule
	// Node and Card say where, as far as the rule knows a place. Card is the UUID of a card or of a MIG slice.
	Node, Card string
	// Pods are those involved, as namespace/name, the one that came last at the end.
	Pods []string
	// Detail has the numbers.
	Detail string
}

// String is one line for a test's log.
func (v Violation) String() string {
	text := fmt.Sprintf("revision %d: %s", v.Revision, v.Rule)
	for _, part := range []string{v.Node, v.Card, strings.Join(v.Pods, ", "), v.Detail} {
		if part != "" {
			text += "; " + part
		}
	}
	return text
}

// Check replays a history from its beginning and returns what it violates, each violation once; and who left for others of which none started
// within [StartsWithin].
//
// A node that loses cards or memory under its pods violates nothing: what pods hold is held against what the node
// offers when a pod comes. Pods of other schedulers are counted; their cards are not known.
func Check(h History) []Violation {
	r := replay{pods: map[string]*pod{}, nodes: map[string]*node{}}
	for i := range h {
		r.apply(&h[i])
	}
	r.violations = append(r.violations, stale(h)...)
	r.violations = append(r.violations, InVain(h, StartsWithin)...)
	slices.SortStableFunc(r.violations, func(a, b Violation) int { return cmp.Compare(a.Revision, b.Revision) })
	return r.violations
}

// Lost returns the submitted pods that a history does not show placed: never seen, never bound, or gone before they
// had finished.
func Lost(h History, submitted []*corev1.Pod) []Violation {
	fates := map[string]string{}
	for i := range h {
		if p := h[i].Pod; p != nil {
			fates[string(p.UID)] = fate(h[i].Type, p)
		}
	}
	var lost []Violation
	for _, p := range submitted {
		what, seen := fates[string(p.UID)]
		if !seen {
			what = "it is nowhere in the history"
		}
		if what != "" {
			lost = append(lost, Violation{Rule: LostPod, Pods: []string{nameOf(p)}, Detail: what})
		}
	}
	return slices.Clip(lost)
}

// fate says what is wrong with how a pod ended, "" when nothing is.
func fate(last watch.EventType, p *corev1.Pod) string {
	switch {
	case p.Spec.NodeName == "":
		return "it was never bound"
	case last == watch.Deleted && !finished(p):
		return "it was deleted before it had finished"
	}
	return ""
}

func finished(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func nameOf(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

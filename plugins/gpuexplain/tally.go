package gpuexplain

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// mismatch is how a node's labels differ from a pod's requirements.
type mismatch int

const (
	labelsMatch mismatch = iota
	otherPool
	otherType
	otherBoth
	mismatches // how many there are
)

// tally counts the reasons of one attempt.
type tally struct {
	statuses fwk.NodeToStatusReader
	// absent is the status of all nodes that no plugin checked.
	absent *fwk.Status
	pool   string
	types  gpu.Types

	reasons map[countedReason]*int
	// last is the reason counted last, and its count: adjacent nodes usually have the same.
	last      countedReason
	lastCount *int
	// absentNodes counts the nodes with the absent status.
	absentNodes [mismatches]int
	// shortNodes are the nodes with a temporary shortage.
	shortNodes []fwk.NodeInfo
}

// countedReason is a reason that nodes have in common.
type countedReason struct{ text, plugin string }

func newTally(pod *corev1.Pod, statuses fwk.NodeToStatusReader) *tally {
	types, _ := gpu.PodTypes(pod) // a plugin has already reported a malformed annotation
	return &tally{
		statuses: statuses, absent: statuses.Get(""), // no node has an empty name
		pool: gpu.PodPool(pod), types: types, reasons: map[countedReason]*int{},
	}
}

func (t *tally) addNode(node fwk.NodeInfo) {
	status := t.statuses.Get(node.Node().Name)
	if status == t.absent {
		t.absentNodes[t.mismatchOf(node.Node())]++
		return
	}
	for _, text := range status.Reasons() {
		t.countReason(countedReason{text, status.Plugin()})
	}
	if status.Code() == fwk.Unschedulable {
		t.shortNodes = append(t.shortNodes, node)
	}
}

func (t *tally) countReason(r countedReason) {
	if t.lastCount == nil || t.last != r {
		if t.reasons[r] == nil {
			t.reasons[r] = new(int)
		}
		t.last, t.lastCount = r, t.reasons[r]
	}
	*t.lastCount++
}

func (t *tally) mismatchOf(node *corev1.Node) mismatch {
	pool := t.pool != "" && t.pool != gpu.PoolOf(node)
	gpuType := !t.types.MatchesNode(node)
	switch {
	case pool && gpuType:
		return otherBoth
	case pool:
		return otherPool
	case gpuType:
		return otherType
	}
	return labelsMatch
}

// listReasons returns the reasons, those of the most nodes first, equal ones by text.
func (t *tally) listReasons() []explain.Reason {
	out := make([]explain.Reason, 0, len(t.reasons)+int(mismatches))
	for r, nodes := range t.reasons {
		out = append(out, explain.Reason{Text: r.text, Plugin: r.plugin, Nodes: *nodes})
	}
	out = append(out, t.listAbsent()...)
	slices.SortFunc(out, func(a, b explain.Reason) int {
		return cmp.Or(cmp.Compare(b.Nodes, a.Nodes), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Plugin, b.Plugin))
	})
	return out
}

// listAbsent distinguishes the nodes that no plugin checked. If a plugin rejected the pod itself, whatever the node, the status has its name;
// then its message comes first, and for all nodes.
func (t *tally) listAbsent() []explain.Reason {
	byLabels := t.absentNodes[otherPool] + t.absentNodes[otherType] + t.absentNodes[otherBoth]
	unexplained := t.absentNodes[labelsMatch]
	if t.absent.Plugin() != "" {
		unexplained += byLabels
	}
	out := []explain.Reason{
		{Text: t.absent.Message(), Plugin: t.absent.Plugin(), Nodes: unexplained},
		{Text: string(reason.InAnotherPool.Text), Nodes: t.absentNodes[otherPool]},
		{Text: string(reason.WithOtherType.Text), Nodes: t.absentNodes[otherType]},
		{Text: string(reason.OtherInBoth.Text), Nodes: t.absentNodes[otherBoth]},
	}
	return slices.DeleteFunc(out, func(r explain.Reason) bool { return r.Nodes == 0 })
}

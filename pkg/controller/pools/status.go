// Package pools keeps the status of GPUPools, and keeps new pods off nodes that break the constraints of their pool.
//
// [StatusOf] and what it calls are pure; the [Reconciler] reads the cluster from its cache, and writes.
package pools

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/amounts"
	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// setSizes are the sizes of [g8s.FreeSet]: those that pods request.
var setSizes = []int32{8, 4, 2, 1}

// Facts are the input of a pool's status.
type Facts struct {
	// Nodes are the nodes of the pool, Pods the pods on them, and Waiting the pods that wait for its GPUs.
	Nodes         []corev1.Node
	Pods, Waiting []corev1.Pod
}

// maxNamed bounds the nodes that a condition names.
const maxNamed = 5

// StatusOf returns the status of a pool without the advice, and the constraints that each node breaks, by name. Unchanged conditions keep their
// times. Nodes count as if the taints for broken constraints were already set.
func StatusOf(pool *g8s.GPUPool, facts Facts, now time.Time) (g8s.GPUPoolStatus, map[string][]nodestate.Violation) {
	broken := map[string][]nodestate.Violation{}
	nodes := slices.Clone(facts.Nodes) // some get taints
	byName := make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	declared := []g8s.GPUPool{*pool}
	for _, seen := range inventory.Build(&snapshot.Snapshot{Nodes: nodes, GPUPools: declared}).Nodes {
		if len(seen.Violations) > 0 {
			broken[seen.Name] = seen.Violations
		}
		setAdmitted(byName[seen.Name], len(seen.Violations) == 0)
	}
	cluster := inventory.Build(&snapshot.Snapshot{Nodes: nodes, Pods: facts.Pods, GPUPools: declared})
	out := g8s.GPUPoolStatus{ObservedGeneration: pool.Generation, Nodes: int32(len(nodes))}
	zones := map[string]bool{}
	for _, seen := range cluster.Nodes {
		if seen.IsSchedulable() {
			out.HealthyNodes++
			zones[byName[seen.Name].Labels[corev1.LabelTopologyZone]] = true
		}
	}
	delete(zones, "")
	for _, p := range cluster.Pools { // only one, because all nodes are in this pool
		out.GPUs = gpuCounts(p.GPUs)
		for _, t := range p.Types {
			out.Types = append(out.Types, g8s.GPUTypeStatus{GPUType: t.GPUType, Nodes: int32(t.Nodes), GPUs: gpuCounts(t.GPUs)})
		}
	}
	out.FreeSets = freeSets(cluster.Nodes)
	out.Pending = pendingOf(facts, pool.Name, now)
	out.Conditions = slices.Clone(pool.Status.Conditions)
	for _, condition := range []metav1.Condition{availableCondition(pool.Spec.Constraints, out.HealthyNodes, len(zones)), admittedCondition(broken)} {
		condition.ObservedGeneration, condition.LastTransitionTime = pool.Generation, metav1.NewTime(now)
		meta.SetStatusCondition(&out.Conditions, condition)
	}
	return out, broken
}

func gpuCounts(g inventory.GPUs) g8s.GPUCounts {
	return g8s.GPUCounts{Total: g.Allocatable, Allocated: g.Used, Free: g.Free}
}

func freeSets(nodes []inventory.Node) []g8s.FreeSet {
	out := make([]g8s.FreeSet, len(setSizes))
	for i, size := range setSizes {
		out[i].Size = size
		for _, node := range nodes {
			out[i].Count = amounts.Add(out[i].Count, node.GPUs.Free/int64(size))
		}
	}
	return out
}

func pendingOf(facts Facts, pool string, now time.Time) g8s.PendingDemand {
	var out g8s.PendingDemand
	for _, entry := range queue.Build(&snapshot.Snapshot{Pods: facts.Waiting, Nodes: facts.Nodes}, nil, nil, now).Entries {
		if entry.Pool != pool {
			continue
		}
		out.Jobs++
		out.GPUs = amounts.Add(out.GPUs, entry.GPUs)
		if out.Since == nil || entry.Since.Before(out.Since.Time) {
			out.Since = &metav1.Time{Time: entry.Since}
		}
	}
	return out
}

func availableCondition(constraints g8s.PoolConstraints, healthy int32, zones int) metav1.Condition {
	out := metav1.Condition{Type: g8s.ConditionAvailable, Status: metav1.ConditionTrue, Reason: "EnoughNodes", Message: "the pool has the nodes that it must have"}
	var lacks []string
	if least := constraints.MinHealthyNodes; least != nil && healthy < *least {
		lacks = append(lacks, fmt.Sprintf("%d nodes take pods, and %d must", healthy, *least))
	}
	if least := constraints.MinZones; least != nil && int32(zones) < *least {
		lacks = append(lacks, fmt.Sprintf("they are in %d zones, and must be in %d", zones, *least))
	}
	if len(lacks) > 0 {
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, "TooFewNodes", strings.Join(lacks, "; ")
	}
	return out
}

func admittedCondition(broken map[string][]nodestate.Violation) metav1.Condition {
	if len(broken) == 0 {
		return metav1.Condition{Type: g8s.ConditionNodesAdmitted, Status: metav1.ConditionTrue, Reason: "AllAdmitted", Message: "all nodes are as they must be"}
	}
	names := slices.Sorted(maps.Keys(broken))
	var lines []string
	for _, name := range names[:min(maxNamed, len(names))] {
		lines = append(lines, name+": "+nodestate.ViolationTexts(broken[name]))
	}
	if more := len(names) - maxNamed; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return metav1.Condition{
		Type: g8s.ConditionNodesAdmitted, Status: metav1.ConditionFalse, Reason: "ConstraintsBroken", Message: strings.Join(lines, "; "),
	}
}

// Package pool plans the membership of pools and the labels of nodes. A pool is only a label of its nodes, so a plan consists of metadata patches of
// nodes, and of the obstacles: nodes that do not exist, are in another pool, or have a label with another value.
//
// The package is pure. Callers read the nodes, reject missing or foreign ones, send the patches, and send [Patch.Undo] of the completed ones if a
// later one fails.
package pool

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Plan is a change of a pool, applied as a whole or not at all.
type Plan struct {
	// Pool is the pool that gains or loses nodes, "" if the plan changes other labels.
	Pool string
	// Patches are the changes, one a node, in the order in which the nodes were named.
	Patches []Patch
	// Unchanged are the named nodes that already have the wanted state.
	Unchanged []string
	// Missing are the named nodes that the cluster does not have.
	Missing []string
	// Foreign are the named nodes that are in another pool.
	Foreign []Foreign
	// Leaving says that the nodes leave the pool. Then foreign nodes stay, even by force.
	Leaving bool
	// Taken are the labels that nodes have with another value, such as their GPU types.
	Taken []Taken
	// Hidden are labels that are set but not read, because the node has another one.
	Hidden []Hidden
	// Empty says that no node was in the pool, which is the same as a missing pool.
	Empty bool
}

// Diff returns the changed labels, a line for each node; "" for none.
func (p *Plan) Diff() string {
	if len(p.Patches) == 0 {
		return ""
	}
	out := "pool " + p.Pool + "\n"
	for _, patch := range p.Patches {
		out += "  " + patch.String() + "\n"
	}
	return out
}

// MovedNodes returns the nodes that join the pool, each with the pool that it leaves, "" for none, and the nodes that leave the pool.
func (p *Plan) MovedNodes() (taken []Foreign, left []string) {
	for _, patch := range p.Patches {
		change, ok := patch.Labels[names.LabelPool]
		switch {
		case p.Pool == "" || !ok:
		case change.After != nil && *change.After == p.Pool:
			from := ""
			if change.Before != nil {
				from = *change.Before
			}
			taken = append(taken, Foreign{Node: patch.Node, Pool: from})
		case change.After == nil:
			left = append(left, patch.Node)
		}
	}
	return taken, left
}

// Foreign is a node in another pool than the plan's.
type Foreign struct {
	Node string
	Pool string
}

// Patch changes the labels and annotations of one node.
type Patch struct {
	Node string
	// ResourceVersion is the version of the node that the patch was planned on.
	ResourceVersion string
	// Labels and Annotations hold the changed keys only.
	Labels      map[string]Change
	Annotations map[string]Change
}

// Change is one value before and after; nil means that the key is absent.
type Change struct {
	Before, After *string
}

// Apply plans to make the nodes of p exactly the pool's nodes: others leave it.
func Apply(p *workload.Pool, nodes []corev1.Node) Plan {
	plan := Join(p, nodes)
	for i := range nodes {
		named := slices.ContainsFunc(p.Nodes, func(member workload.PoolNode) bool { return member.Name == nodes[i].Name })
		if nodes[i].Labels[names.LabelPool] == p.Name && !named {
			plan.addPatch(leavePatch(&nodes[i]))
		}
	}
	return plan
}

// Join plans to add the nodes of p to the pool, to label them with their GPU types, and to annotate them with the pool's description. GPU types that
// p omits stay unchanged.
func Join(p *workload.Pool, nodes []corev1.Node) Plan {
	plan := Plan{Pool: p.Name, Empty: isEmpty(p.Name, nodes)}
	current := byName(nodes)
	for _, member := range p.Nodes {
		node, ok := current[member.Name]
		if !ok {
			plan.Missing = append(plan.Missing, member.Name)
			continue
		}
		if other := node.Labels[names.LabelPool]; other != "" && other != p.Name {
			plan.Foreign = append(plan.Foreign, Foreign{Node: node.Name, Pool: other})
		}
		patch := joinPatch(p, member, node)
		plan.noteTaken(&patch, names.LabelGPUType)
		plan.addPatch(patch)
	}
	return plan
}

// noteTaken records that a patch changes a label that the node has with another value.
func (p *Plan) noteTaken(patch *Patch, key string) {
	if change := patch.Labels[key]; change.Before != nil && change.After != nil {
		p.Taken = append(p.Taken, Taken{Node: patch.Node, Key: key, Value: *change.Before, Becomes: *change.After})
	}
}

func joinPatch(p *workload.Pool, member workload.PoolNode, node *corev1.Node) Patch {
	patch := patchOf(node)
	setValue(patch.Labels, node.Labels, names.LabelPool, &p.Name)
	if member.GPUType != "" {
		setValue(patch.Labels, node.Labels, names.LabelGPUType, &member.GPUType)
	}
	switch {
	case p.Description != "":
		setValue(patch.Annotations, node.Annotations, names.AnnotationDescription, &p.Description)
	case node.Labels[names.LabelPool] != p.Name:
		setValue(patch.Annotations, node.Annotations, names.AnnotationDescription, nil)
	}
	return patch
}

// Leave plans to remove the named nodes from a pool. Nodes of another pool, or of none, are foreign: they stay, even by force. GPU types stay on the
// nodes.
func Leave(pool string, nodeNames []string, nodes []corev1.Node) Plan {
	plan := Plan{Pool: pool, Leaving: true, Empty: isEmpty(pool, nodes)}
	current := byName(nodes)
	for _, name := range nodeNames {
		node, ok := current[name]
		if !ok {
			plan.Missing = append(plan.Missing, name)
			continue
		}
		switch in := node.Labels[names.LabelPool]; in {
		case pool:
			plan.addPatch(leavePatch(node))
		case "":
			plan.Foreign = append(plan.Foreign, Foreign{Node: name, Pool: names.DefaultPool})
		default:
			plan.Foreign = append(plan.Foreign, Foreign{Node: name, Pool: in})
		}
	}
	return plan
}

// Delete plans to remove all nodes from a pool. A pool without nodes does not exist, so a plan without patches means that there is no such pool.
func Delete(pool string, nodes []corev1.Node) Plan {
	plan := Plan{Pool: pool, Empty: isEmpty(pool, nodes)}
	for i := range nodes {
		if nodes[i].Labels[names.LabelPool] == pool {
			plan.addPatch(leavePatch(&nodes[i]))
		}
	}
	return plan
}

func leavePatch(node *corev1.Node) Patch {
	patch := patchOf(node)
	setValue(patch.Labels, node.Labels, names.LabelPool, nil)
	setValue(patch.Annotations, node.Annotations, names.AnnotationDescription, nil)
	return patch
}

func (p *Plan) addPatch(patch Patch) {
	if len(patch.Labels) == 0 && len(patch.Annotations) == 0 {
		p.Unchanged = append(p.Unchanged, patch.Node)
		return
	}
	p.Patches = append(p.Patches, patch)
}

func patchOf(node *corev1.Node) Patch {
	return Patch{
		Node: node.Name, ResourceVersion: node.ResourceVersion,
		Labels: map[string]Change{}, Annotations: map[string]Change{},
	}
}

// setValue records a change of key to the value after, unless it already has it.
func setValue(changes map[string]Change, current map[string]string, key string, after *string) {
	value, present := current[key]
	switch {
	case !present && after == nil, present && after != nil && value == *after:
	case present:
		changes[key] = Change{Before: &value, After: after}
	default:
		changes[key] = Change{After: after}
	}
}

// Members returns the sorted names of a pool's nodes.
func Members(pool string, nodes []corev1.Node) []string {
	var out []string
	for i := range nodes {
		if nodes[i].Labels[names.LabelPool] == pool {
			out = append(out, nodes[i].Name)
		}
	}
	slices.Sort(out)
	return out
}

func isEmpty(pool string, nodes []corev1.Node) bool {
	return !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return n.Labels[names.LabelPool] == pool })
}

func byName(nodes []corev1.Node) map[string]*corev1.Node {
	index := make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		index[nodes[i].Name] = &nodes[i]
	}
	return index
}

// ApplyTo returns the node after the patch.
func (p Patch) ApplyTo(node *corev1.Node) *corev1.Node {
	out := node.DeepCopy()
	out.Labels, out.Annotations = applyChanges(out.Labels, p.Labels), applyChanges(out.Annotations, p.Annotations)
	return out
}

func applyChanges(current map[string]string, changes map[string]Change) map[string]string {
	if current == nil {
		current = map[string]string{}
	}
	for key, change := range changes {
		if change.After == nil {
			delete(current, key)
		} else {
			current[key] = *change.After
		}
	}
	return current
}

// Undo returns the patch that reverts p on the current node. It returns false if the values written by p have changed since: then the node must be
// left alone.
func (p Patch) Undo(node *corev1.Node) (Patch, bool) {
	undo := patchOf(node)
	return undo, revertChanges(undo.Labels, p.Labels, node.Labels) && revertChanges(undo.Annotations, p.Annotations, node.Annotations)
}

// revertChanges fills in undo, and reports whether current still has all values that the changes wrote.
func revertChanges(undo, changes map[string]Change, current map[string]string) bool {
	for key, change := range changes {
		value, present := current[key]
		if present != (change.After != nil) || present && value != *change.After {
			return false
		}
		undo[key] = Change{Before: change.After, After: change.Before}
	}
	return true
}

// MergePatch renders p as a JSON merge patch. The API server answers 409 Conflict when the node has changed since it
// was read.
func (p Patch) MergePatch() ([]byte, error) {
	metadata := map[string]any{"resourceVersion": p.ResourceVersion}
	if len(p.Labels) > 0 {
		metadata["labels"] = afterValues(p.Labels)
	}
	if len(p.Annotations) > 0 {
		metadata["annotations"] = afterValues(p.Annotations)
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, phrase.Errorf("encoding the patch of node %s: %w", p.Node, err)
	}
	return body, nil
}

func afterValues(changes map[string]Change) map[string]*string {
	out := make(map[string]*string, len(changes))
	for key, c := range changes {
		out[key] = c.After
	}
	return out
}

// String renders the patch for people: "node-1: g8s.host/pool=a (was b), g8s.host/gpu-type=A100-80G".
func (p Patch) String() string {
	var parts []string
	for _, changes := range []map[string]Change{p.Labels, p.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(changes)) {
			parts = append(parts, changes[key].describeChange(key))
		}
	}
	return p.Node + ": " + strings.Join(parts, ", ")
}

func (c Change) describeChange(key string) string {
	switch {
	case c.After == nil:
		return key + " removed"
	case c.Before == nil:
		return key + "=" + *c.After
	default:
		return fmt.Sprintf("%s=%s (was %s)", key, *c.After, *c.Before)
	}
}

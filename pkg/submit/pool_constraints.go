package submit

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// ConstraintError says that nodes would violate the constraints of their current or new pool.
type ConstraintError struct {
	Pool  string
	Nodes []RefusedNode
	// New says that the pool does not exist yet.
	New bool
}

// RefusedNode is a node with the constraints it would violate.
type RefusedNode struct {
	Node       string                `json:"node"`
	Violations []nodestate.Violation `json:"violations"`
}

// maxRefusedNodes is the maximum number of nodes in an error.
const maxRefusedNodes = 10

func (e *ConstraintError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ConstraintError) Message() phrase.Text {
	out := phrase.Textf("pool %q does not take %d of these nodes:", e.Pool, len(e.Nodes))
	for _, refused := range e.Nodes[:min(maxRefusedNodes, len(e.Nodes))] {
		for _, violation := range refused.Violations {
			out = out.Addf("\n  %s: %s", refused.Node, violation.Says())
		}
	}
	if more := len(e.Nodes) - maxRefusedNodes; more > 0 {
		out = out.Addf("\n  and %d more", more)
	}
	return out
}

// checkConstraints refuses a plan that causes new constraint violations in its pool. It checks the added and changed nodes, and all members if the
// constraints change. declared is the pool's declaration within the plan, nil for none.
func (c *Client) checkConstraints(ctx context.Context, plan pool.Plan, nodes []corev1.Node, declared *declaration) error {
	was, asks := declared.poolRequirements()
	before, after := membersAround(plan, nodes, declared.hasChanges())
	if len(after) == 0 {
		return nil
	}
	if asks == nil {
		var err error
		if asks, err = c.GPUPool(ctx, plan.Pool); err != nil || asks == nil {
			return err
		}
		was = asks
	}
	refused := newViolations(before, was, after, asks)
	if len(refused) == 0 {
		return nil
	}
	return &ConstraintError{Pool: plan.Pool, Nodes: refused, New: plan.Empty && was == nil}
}

// poolRequirements returns the current and the future GPUPool of the declaration; nil for none.
func (d *declaration) poolRequirements() (was, will *names.GPUPool) {
	if d == nil {
		return nil, nil
	}
	return d.live, d.after
}

// membersAround returns the nodes that are in the plan's pool after it, before and after the change: only the changed ones, or all.
func membersAround(plan pool.Plan, nodes []corev1.Node, all bool) (before, after []corev1.Node) {
	if plan.Pool == "" || plan.Leaving {
		return nil, nil
	}
	patches := make(map[string]*pool.Patch, len(plan.Patches))
	for i := range plan.Patches {
		patches[plan.Patches[i].Node] = &plan.Patches[i]
	}
	for i := range nodes {
		changed := &nodes[i]
		patch := patches[changed.Name]
		if patch != nil {
			changed = patch.ApplyTo(changed)
		}
		if (all || patch != nil) && changed.Labels[names.LabelPool] == plan.Pool {
			before, after = append(before, nodes[i]), append(after, *changed)
		}
	}
	return before, after
}

// newViolations returns the nodes that violate the new constraints and did not violate the old ones (nil for none), sorted by name.
func newViolations(before []corev1.Node, was *names.GPUPool, after []corev1.Node, asks *names.GPUPool) []RefusedNode {
	broken := func(nodes []corev1.Node, of *names.GPUPool) []inventory.Node {
		read := &snapshot.Snapshot{Nodes: nodes}
		if of != nil {
			read.GPUPools = []names.GPUPool{*of}
		}
		return inventory.Build(read).Nodes
	}
	old := broken(before, was)
	var out []RefusedNode
	for i, node := range broken(after, asks) { // both are sorted by name
		fresh := slices.DeleteFunc(slices.Clone(node.Violations), func(v nodestate.Violation) bool {
			return slices.ContainsFunc(old[i].Violations, func(o nodestate.Violation) bool { return o.Constraint == v.Constraint && o.Has == v.Has })
		})
		if len(fresh) > 0 {
			out = append(out, RefusedNode{Node: node.Name, Violations: fresh})
		}
	}
	return out
}

// GPUPool reads the GPUPool of a pool. It returns nil if there is none, if the cluster does not know the kind, or if the user may not see it.
func (c *Client) GPUPool(ctx context.Context, name string) (*names.GPUPool, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil // no object can have that name
	}
	var out names.GPUPool
	err := c.api.Get(ctx, client.ObjectKey{Name: name}, &out)
	switch {
	case err == nil:
		return &out, nil
	case isUnknown(err), apierrors.IsForbidden(err):
		return nil, nil
	}
	return nil, phrase.Errorf("reading GPUPool %s: %w", name, err)
}

package submit

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// MissingNodesError says that a plan names nodes that do not exist.
type MissingNodesError struct {
	Pool  string
	Nodes []string
}

func (e *MissingNodesError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *MissingNodesError) Message() phrase.Text {
	if e.Pool == "" {
		return phrase.Textf("nodes not found: %s", strings.Join(e.Nodes, ", "))
	}
	return phrase.Textf("pool %q: nodes not found: %s", e.Pool, strings.Join(e.Nodes, ", "))
}

// ForeignNodesError says that a plan would take nodes from other pools.
type ForeignNodesError struct {
	Pool  string
	Nodes []pool.Foreign
	// Leaving says that the nodes should leave Pool but are not in it.
	Leaving bool
}

// maxTakenLabels is the maximum number of labels in an error.
const maxTakenLabels = 10

// TakenError says that nodes have labels with other values.
type TakenError struct{ Labels []pool.Taken }

func (e *TakenError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *TakenError) Message() phrase.Text {
	labels := make([]phrase.Text, min(len(e.Labels), maxTakenLabels))
	for i := range labels {
		taken := &e.Labels[i]
		labels[i] = phrase.Textf("node %s has %s=%s", taken.Node, taken.Key, taken.Value)
	}
	out := phrase.Join(labels, phrase.Textf(", "))
	if over := len(e.Labels) - maxTakenLabels; over > 0 {
		out = out.Addf(", and %d more", over)
	}
	return out
}

func (e *ForeignNodesError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ForeignNodesError) Message() phrase.Text {
	nodes := make([]phrase.Text, len(e.Nodes))
	for i, foreign := range e.Nodes {
		nodes[i] = phrase.Textf("%s is in pool %q", foreign.Node, foreign.Pool)
	}
	return phrase.Textf("pool %q: %s", e.Pool, phrase.Join(nodes, phrase.Textf(", ")))
}

// PoolExistsError says that a pool to create already exists.
type PoolExistsError struct {
	Pool  string
	Nodes int
}

func (e *PoolExistsError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *PoolExistsError) Message() phrase.Text {
	if e.Nodes == 1 {
		return phrase.Textf("pool %q already exists, with 1 node", e.Pool)
	}
	return phrase.Textf("pool %q already exists, with %d nodes", e.Pool, e.Nodes)
}

// planAttempts is how often a change of nodes is planned again because a node has changed meanwhile: nodes report their status every few seconds.
const planAttempts = 5

// PoolOptions say how to change a pool.
type PoolOptions struct {
	// Force takes nodes from the pools that they are in.
	Force bool
	// Overwrite changes labels that nodes have with another value: their GPU types, if a pool names them.
	Overwrite bool
	// DryRun checks on the server, and changes nothing.
	DryRun bool
	// New requires that no node is in the pool yet, unless forced.
	New bool
	// Declare is the pool whose GPUPool is written with the labels, nil for none. KeepDeclared keeps an existing GPUPool unchanged unless Declare has
	// constraints.
	Declare      *workload.Pool
	KeepDeclared bool
	// TakeOver takes over fields of the GPUPool that another program set.
	TakeOver bool
}

// PoolPlan decides what changes about nodes.
type PoolPlan = func([]corev1.Node) pool.Plan

// LabelNodes sets labels of nodes, and removes those with a nil value: on all of the nodes or none. If a node has a label with another value, the
// error is a [TakenError], unless the options overwrite it.
func (c *Client) LabelNodes(
	ctx context.Context, nodeNames []string, labels map[string]*string, opts PoolOptions,
) (pool.Plan, error) {
	return c.ChangePool(ctx, func(nodes []corev1.Node) pool.Plan { return pool.Label(nodeNames, labels, nodes) }, opts)
}

// ChangePool reads the nodes, lets plan decide and carries the plan out on all its nodes or none. It patches nothing before every node was checked.
// If a node has changed since it was read, everything is planned again.
func (c *Client) ChangePool(
	ctx context.Context, plan func([]corev1.Node) pool.Plan, opts PoolOptions,
) (pool.Plan, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return pool.Plan{}, err
	}
	return c.ChangeNodes(ctx, nodes, plan, opts)
}

// Nodes are all nodes.
func (c *Client) Nodes(ctx context.Context) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := c.api.List(ctx, &nodes); err != nil {
		return nil, phrase.Errorf("listing nodes: %w", err)
	}
	return nodes.Items, nil
}

// ChangeNodes is [Client.ChangePool] for callers that have already read the nodes, to make several changes.
func (c *Client) ChangeNodes(
	ctx context.Context, nodes []corev1.Node, plan func([]corev1.Node) pool.Plan, opts PoolOptions,
) (pool.Plan, error) {
	planned, _, err := c.changeNodes(ctx, nodes, plan, opts)
	return planned, err
}

// changeNodes is ChangeNodes, and also returns the GPUPool's declaration.
func (c *Client) changeNodes(ctx context.Context, nodes []corev1.Node, plan PoolPlan, opts PoolOptions) (pool.Plan, *declaration, error) {
	for attempt := 1; ; attempt++ {
		planned := plan(nodes)
		if err := checkPlan(planned, nodes, opts); err != nil {
			return planned, nil, err
		}
		var declared *declaration
		var err error
		if opts.Declare != nil {
			if declared, err = c.planDeclaration(ctx, opts.Declare, opts.KeepDeclared, opts.TakeOver || opts.DryRun); err != nil {
				return planned, nil, err
			}
		}
		if err := c.checkConstraints(ctx, planned, nodes, declared); err != nil {
			return planned, declared, err
		}
		err = c.writePool(ctx, planned, declared, opts)
		if !apierrors.IsConflict(err) || isFieldConflict(err) || attempt == planAttempts {
			return planned, declared, err
		}
		if nodes, err = c.Nodes(ctx); err != nil {
			return pool.Plan{}, nil, err
		}
	}
}

// writePool writes the GPUPool and then the nodes. If a node fails, the GPUPool is restored.
func (c *Client) writePool(ctx context.Context, planned pool.Plan, declared *declaration, opts PoolOptions) error {
	if !declared.hasChanges() || opts.DryRun {
		return c.patchNodes(ctx, planned, opts)
	}
	undo, err := c.writeDeclared(ctx, declared)
	if err != nil {
		return err
	}
	if err = c.patchNodes(ctx, planned, opts); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if failed := undo(ctx); failed != nil {
		return phrase.Errorf("%w; giving GPUPool %s back what it had failed too: %w", err, planned.Pool, failed)
	}
	return err
}

// ApplyPool makes exactly the nodes of p the pool's nodes, and makes its GPUPool match p. The returned plan tells which nodes changed.
func (c *Client) ApplyPool(ctx context.Context, p *workload.Pool, opts PoolOptions) (Result, pool.Plan, error) {
	result := Result{Ref: Ref{Name: p.Name, Kind: string(workload.KindPool)}, Action: ActionConfigured}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return result, pool.Plan{}, err
	}
	opts.Declare = p
	plan, declared, err := c.changeNodes(ctx, nodes, func(nodes []corev1.Node) pool.Plan { return pool.Apply(p, nodes) }, opts)
	said, failed := declared.diffSpecs()
	result.Diff = said + plan.Diff()
	switch {
	case len(plan.Patches) == 0 && !declared.hasChanges():
		result.Action = ActionUnchanged
	case plan.Empty && (declared == nil || declared.live == nil):
		result.Action = ActionCreated
	}
	return result, plan, errors.Join(err, failed)
}

func checkPlan(plan pool.Plan, nodes []corev1.Node, opts PoolOptions) error {
	force := opts.Force
	var members []string
	if opts.New && !force {
		members = pool.Members(plan.Pool, nodes)
	}
	switch {
	case len(plan.Missing) > 0:
		return &MissingNodesError{Pool: plan.Pool, Nodes: plan.Missing}
	case len(plan.Foreign) > 0 && (plan.Leaving || !force):
		return &ForeignNodesError{Pool: plan.Pool, Nodes: plan.Foreign, Leaving: plan.Leaving}
	case len(members) > 0:
		return &PoolExistsError{Pool: plan.Pool, Nodes: len(members)}
	case len(plan.Taken) > 0 && !opts.Overwrite:
		return &TakenError{Labels: plan.Taken}
	}
	return nil
}

// patchNodes patches the nodes one after the other. If one fails or ctx ends, the nodes patched before are restored.
func (c *Client) patchNodes(ctx context.Context, plan pool.Plan, opts PoolOptions) error {
	var done []pool.Patch
	for _, patch := range plan.Patches {
		err := ctx.Err()
		if err == nil {
			err = c.patchNode(ctx, patch, opts.DryRun)
		}
		if err != nil {
			if plan.Pool != "" {
				err = phrase.Errorf("pool %q: %w", plan.Pool, err)
			}
			return c.restoreNodes(ctx, done, err)
		}
		if !opts.DryRun {
			done = append(done, patch)
		}
	}
	return nil
}

// restoreNodes restores the previous labels of nodes, and returns the error that made it necessary.
func (c *Client) restoreNodes(ctx context.Context, done []pool.Patch, cause error) error {
	if len(done) == 0 {
		return cause
	}
	var restored int
	var changed []string
	var failures []error
	for _, patch := range slices.Backward(done) {
		switch undone, err := c.undoPatch(context.WithoutCancel(ctx), patch); {
		case err != nil:
			failures = append(failures, err)
		case undone:
			restored++
		default:
			changed = append(changed, patch.Node)
		}
	}
	cause = phrase.Errorf("%w; %d of the %d nodes changed before got back what they had", cause, restored, len(done))
	if len(changed) > 0 {
		cause = phrase.Errorf("%w; changed by someone else meanwhile, and left alone: %s", cause, strings.Join(changed, ", "))
	}
	if err := errors.Join(failures...); err != nil {
		return phrase.Errorf("%w; giving the others back what they had failed too: %w", cause, err)
	}
	return cause
}

// undoPatch reverts a patch of a node. It returns false if someone else has changed the labels since.
func (c *Client) undoPatch(ctx context.Context, patch pool.Patch) (bool, error) {
	for attempt := 1; ; attempt++ {
		var node corev1.Node
		if err := c.api.Get(ctx, client.ObjectKey{Name: patch.Node}, &node); err != nil {
			return false, phrase.Errorf("reading node %s: %w", patch.Node, err)
		}
		undo, ok := patch.Undo(&node)
		if !ok {
			return false, nil
		}
		err := c.patchNode(ctx, undo, false)
		if err == nil || !apierrors.IsConflict(err) || attempt == planAttempts {
			return err == nil, err
		}
	}
}

// patchNode completes even if ctx ends meanwhile, as all writes do.
func (c *Client) patchNode(ctx context.Context, patch pool.Patch, dryRun bool) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	body, err := patch.MergePatch()
	if err != nil {
		return err
	}
	node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: patch.Node}}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	var opts []client.PatchOption
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	if err := c.api.Patch(ctx, node, client.RawPatch(types.MergePatchType, body), opts...); err != nil {
		return phrase.Errorf("labelling node %s: %w", patch.Node, err)
	}
	return nil
}

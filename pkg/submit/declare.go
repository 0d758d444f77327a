package submit

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// NoGPUPoolsError says that a pool has constraints but the cluster has no GPUPools.
type NoGPUPoolsError struct{ Pool string }

func (e *NoGPUPoolsError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *NoGPUPoolsError) Message() phrase.Text {
	return phrase.Textf("pool %q has constraints, and this cluster knows no GPUPools: have the administrators install\n"+
		"manifests/crds and manifests/controller, or leave the constraints out: labels alone make a pool", e.Pool)
}

// declaration is the GPUPool that a change of a pool writes, after its nodes are checked and before they are labelled.
type declaration struct {
	wanted *names.GPUPool
	// live is the current object, nil for none, and after the resulting one; both are the same object if nothing is to be written.
	live, after *names.GPUPool
	// force takes over fields that others have set.
	force bool
}

// planDeclaration determines what to write to the GPUPool of p. It returns nil if the cluster has no GPUPools or the user may not see them, and p has
// no constraints. With keep, an existing GPUPool is not changed unless p has constraints.
func (c *Client) planDeclaration(ctx context.Context, p *workload.Pool, keep, force bool) (*declaration, error) {
	d := &declaration{wanted: render.GPUPool(p), force: force}
	asks := render.NeedsGPUPool(p)
	switch {
	case d.wanted == nil && asks:
		return nil, phrase.Errorf("pool %q has constraints, and no GPUPool can have its name: use lower-case letters, digits, '-' and '.'", p.Name)
	case d.wanted == nil:
		return nil, nil
	}
	hidden, err := d.readLive(ctx, c)
	switch {
	case hidden && !asks:
		return nil, nil
	case err != nil:
		return nil, err
	case d.live != nil && keep && !asks:
		d.after = d.live
		return d, nil
	}
	after, err := c.applyGPUPool(ctx, d.wanted, force, true)
	if err != nil {
		return nil, declarationError(err, p.Name, asks)
	}
	d.resolveAfter(after)
	return d, nil
}

// declarationError explains why a GPUPool cannot be written. It returns nil if labels alone define the pool because it has no constraints.
func declarationError(err error, pool string, asks bool) error {
	switch {
	case !asks && (isUnknown(err) || apierrors.IsForbidden(err) || apierrors.IsInvalid(err)):
		return nil
	case isUnknown(err):
		return &NoGPUPoolsError{Pool: pool}
	}
	return err
}

// readLive reads the current GPUPool. hidden says that the error is that the user may not see it.
func (d *declaration) readLive(ctx context.Context, c *Client) (hidden bool, err error) {
	var live names.GPUPool
	err = c.api.Get(ctx, client.ObjectKeyFromObject(d.wanted), &live)
	switch {
	case err == nil:
		d.live = &live
	case !isUnknown(err): // the object or its kind may not exist: writing it will tell
		return apierrors.IsForbidden(err), phrase.Errorf("reading GPUPool %s: %w", d.wanted.Name, err)
	}
	return false, nil
}

// resolveAfter stores the resulting object: the current one if both are equal.
func (d *declaration) resolveAfter(after *names.GPUPool) {
	if d.after = after; d.live != nil && equality.Semantic.DeepEqual(d.live.Spec, after.Spec) {
		d.after = d.live
	}
}

func isUnknown(err error) bool {
	return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || runtime.IsNotRegisteredError(err)
}

// hasChanges reports whether there is anything to write.
func (d *declaration) hasChanges() bool { return d != nil && d.after != d.live }

// diffSpecs returns the changes of the GPUPool.
func (d *declaration) diffSpecs() (string, error) {
	if !d.hasChanges() {
		return "", nil
	}
	after, err := toUnstructured(authoredGPUPool(d.after))
	if err != nil {
		return "", err
	}
	var before *unstructured.Unstructured
	if d.live != nil {
		if before, err = toUnstructured(authoredGPUPool(d.live)); err != nil {
			return "", err
		}
	}
	return jobplan.Diff(before, after)
}

// authoredGPUPool returns a GPUPool with only the fields that its author writes.
func authoredGPUPool(p *names.GPUPool) *names.GPUPool {
	return &names.GPUPool{
		TypeMeta:   metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUPool"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec,
	}
}

// writeDeclared writes the GPUPool, and returns a function that restores the previous one.
func (c *Client) writeDeclared(ctx context.Context, d *declaration) (undo func(context.Context) error, err error) {
	written, err := c.applyGPUPool(ctx, d.wanted, d.force, false)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		if d.live == nil {
			return client.IgnoreNotFound(c.api.Delete(ctx, written, client.Preconditions{UID: &written.UID, ResourceVersion: &written.ResourceVersion}))
		}
		written.Spec = d.live.Spec
		return c.api.Update(ctx, written)
	}, nil
}

// applyGPUPool applies a GPUPool, and returns the resulting object.
func (c *Client) applyGPUPool(ctx context.Context, wanted *names.GPUPool, force, dryRun bool) (*names.GPUPool, error) {
	tree, err := toUnstructured(wanted)
	if err != nil {
		return nil, err
	}
	var opts []client.ApplyOption
	if force {
		opts = append(opts, client.ForceOwnership)
	}
	if dryRun {
		opts = append(opts, client.DryRunAll)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := c.api.Apply(ctx, client.ApplyConfigurationFromUnstructured(tree), opts...); err != nil {
		return nil, phrase.Errorf("applying GPUPool %s: %w", wanted.Name, err)
	}
	var out names.GPUPool
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree.Object, &out); err != nil {
		return nil, phrase.Errorf("reading GPUPool %s: %w", wanted.Name, err)
	}
	return &out, nil
}

// DeletePool removes all nodes from a pool by a plan, and deletes its GPUPool. found reports whether either existed.
func (c *Client) DeletePool(ctx context.Context, plan PoolPlan, name string) (found bool, err error) {
	changed, err := c.ChangePool(ctx, plan, PoolOptions{})
	if err != nil {
		return false, err
	}
	deleted, err := c.DeleteGPUPool(ctx, name)
	return deleted || !changed.Empty, err
}

// DeleteGPUPool deletes the GPUPool of a pool without nodes, and reports whether there was one that the user may see.
func (c *Client) DeleteGPUPool(ctx context.Context, name string) (bool, error) {
	live, err := c.GPUPool(ctx, name)
	if err != nil || live == nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = c.api.Delete(ctx, live, client.Preconditions{UID: &live.UID})
	if client.IgnoreNotFound(err) != nil {
		return false, phrase.Errorf("deleting GPUPool %s (its nodes have left the pool): %w", name, err)
	}
	return true, nil
}

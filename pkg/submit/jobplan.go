package submit

import (
	"context"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
)

// jobPlan is how the objects of a job change, or those of a quota.
type jobPlan struct {
	// live is the job's top object as it is, which owns what is created; nil if nothing does.
	live client.Object
	// placed says that a pod of it has a node, where that matters.
	placed bool
	// fresh says that nothing of the job is there.
	fresh bool
	// desired are the objects as they shall be, the top object first.
	desired []client.Object
	// before and after are the objects of desired, in the same order, as they are and as they will be. A nil before is
	// an object that is not there; both slices are empty when all is fresh.
	before, after []*unstructured.Unstructured
	// changed says which of them change.
	changed []bool
	// obsolete are the objects that the job had and has not any more.
	obsolete []*unstructured.Unstructured
	// stays are the claims that the job had and its YAML does not mention any more: they hold data.
	stays []*unstructured.Unstructured
	// unreserved says that the job has not its name for itself yet.
	unreserved bool
	// keeper owns the objects of before while the job is made again; nil if nothing does.
	keeper client.Object
}

func (p *jobPlan) changes() bool {
	return p.fresh || len(p.obsolete) > 0 || slices.Contains(p.changed, true) || p.incomplete()
}

// incomplete says whether something of the creation of the job is still to be done, which no diff shows.
func (p *jobPlan) incomplete() bool {
	return p.unreserved || p.live != nil && isIncomplete(p.live) || len(p.kept()) > 0
}

// startsOver says whether the plan changes a Deployment in place such that Kubernetes makes its pods again.
func (p *jobPlan) startsOver() bool {
	if _, ok := p.live.(*appsv1.Deployment); !ok || p.before[0] == nil {
		return false
	}
	return !reflect.DeepEqual(template(p.before[0]), template(p.after[0]))
}

// template is that of the pods of an object.
func template(object *unstructured.Unstructured) any {
	out, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template") // nil where it has none
	return out
}

// diff shows all that changes.
func (p *jobPlan) diff() (string, error) {
	var out strings.Builder
	for i, object := range p.desired {
		before, after, err := p.images(i, object)
		if err != nil {
			return "", err
		}
		text, err := jobplan.Diff(before, after)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	for _, object := range p.obsolete {
		text, err := jobplan.Diff(object, nil)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

// images are an object before and after the change.
func (p *jobPlan) images(i int, object client.Object) (before, after *unstructured.Unstructured, err error) {
	if !p.fresh && p.before[i] != nil {
		return p.before[i], p.after[i], nil
	}
	after, err = untyped(object)
	return nil, after, err
}

// plan compares the objects of a job with what is there.
func (c *Client) plan(
	ctx context.Context, live client.Object, desired []client.Object, opts render.Options,
) (*jobPlan, error) {
	jobplan.Keep(desired[0], live)
	last := lastApplied(live, opts)
	plan := &jobPlan{live: live, desired: desired}
	if jobplan.LimitsTime(desired[0], live) {
		var err error
		switch plan.placed, err = c.isPlaced(ctx, live); {
		case apierrors.IsForbidden(err):
			plan.placed = true // who may not see pods changes the Job in place, as ever
		case err != nil:
			return nil, err
		}
	}
	for i, object := range desired {
		before, err := c.read(ctx, object)
		if err != nil {
			return nil, err
		}
		if err := fillUpload(object, before); err != nil {
			return nil, err
		}
		after, changed := before, true
		if before != nil {
			if i > 0 {
				if !isOurs(before) {
					return nil, &ExistsError{Namespace: before.GetNamespace(), Object: describe(before)}
				}
				jobplan.Keep(object, before)
			}
			if after, changed, err = jobplan.Merge(before, find(last, object), jobplan.InPlace(object, live, plan.placed)); err != nil {
				return nil, err
			}
		}
		plan.before, plan.after = append(plan.before, before), append(plan.after, after)
		plan.changed = append(plan.changed, changed)
	}
	reserved, err := c.isReserved(ctx, live)
	if err != nil {
		return nil, err
	}
	plan.unreserved = !reserved
	if plan.obsolete, err = c.obsolete(ctx, live, last, desired); err != nil {
		return nil, err
	}
	plan.stays, err = c.unmentioned(ctx, live, last, desired)
	return plan, err
}

// lastApplied renders the YAML that a job was made from, or last applied as; nothing if it cannot be read any more.
func lastApplied(live client.Object, opts render.Options) []client.Object {
	objects, err := objectsOf(live, live.GetAnnotations()[names.AnnotationSubmitted], opts)
	if err != nil {
		return nil
	}
	return objects
}

// find returns the object of the same kind and name, nil if there is none.
func find(objects []client.Object, like client.Object) client.Object {
	for _, object := range objects {
		if describe(object) == describe(like) {
			return object
		}
	}
	return nil
}

// obsolete reads the objects that belong to the job and that its YAML does not mention any more. Claims stay: they
// hold data.
func (c *Client) obsolete(
	ctx context.Context, live client.Object, last, desired []client.Object,
) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, object := range last {
		if _, ok := object.(*corev1.PersistentVolumeClaim); ok || find(desired, object) != nil {
			continue
		}
		found, err := c.read(ctx, object)
		if err != nil {
			return nil, err
		}
		if found != nil && isOurs(found) && isOwned(found, live) {
			out = append(out, found)
		}
	}
	return out, nil
}

// read returns an object as the API server has it, nil if it is not there.
func (c *Client) read(ctx context.Context, like client.Object) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(like.GetObjectKind().GroupVersionKind())
	err := c.api.Get(ctx, client.ObjectKeyFromObject(like), out)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, phrase.Errorf("reading %s: %w", describe(like), err)
	}
	return out, nil
}

// untyped returns an object as it is sent: without status, and without fields that are only empty.
func untyped(object client.Object) (*unstructured.Unstructured, error) {
	tree, err := render.Tree(object)
	return &unstructured.Unstructured{Object: tree}, err
}

func isOwned(object, owner metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == owner.GetUID()
	})
}

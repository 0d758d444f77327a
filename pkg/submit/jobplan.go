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

// jobPlan is the set of changes to the objects of a job or a quota.
type jobPlan struct {
	// live is the current top object of the job, which owns new objects; nil if there is none.
	live client.Object
	// placed says that a pod of the job has a node. It is set only if that matters.
	placed bool
	// fresh says that no object of the job exists.
	fresh bool
	// desired are the objects in their new state, the top object first.
	desired []client.Object
	// before and after are the current and the resulting states of the objects in desired, in the same order. A nil before means that the object does
	// not exist; both slices are empty if all is fresh.
	before, after []*unstructured.Unstructured
	// changed says which of them change.
	changed []bool
	// obsolete are the objects that the job no longer has.
	obsolete []*unstructured.Unstructured
	// stays are the job's claims that its YAML no longer mentions: they hold data.
	stays []*unstructured.Unstructured
	// unreserved says that the job has not reserved its name yet.
	unreserved bool
	// keeper owns the objects of before while the job is replaced; nil for none.
	keeper client.Object
}

func (p *jobPlan) changes() bool {
	return p.fresh || len(p.obsolete) > 0 || slices.Contains(p.changed, true) || p.incomplete()
}

// incomplete reports whether part of the job's creation is still to be done, which no diff shows.
func (p *jobPlan) incomplete() bool {
	return p.unreserved || p.live != nil && isIncomplete(p.live) || len(p.kept()) > 0
}

// startsOver reports whether the plan changes a Deployment in place such that Kubernetes recreates its pods.
func (p *jobPlan) startsOver() bool {
	if _, ok := p.live.(*appsv1.Deployment); !ok || p.before[0] == nil {
		return false
	}
	return !reflect.DeepEqual(template(p.before[0]), template(p.after[0]))
}

// template returns the pod template of an object.
func template(object *unstructured.Unstructured) any {
	out, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template") // nil if it has none
	return out
}

// diff returns all changes as a diff.
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

// images returns an object before and after the change.
func (p *jobPlan) images(i int, object client.Object) (before, after *unstructured.Unstructured, err error) {
	if !p.fresh && p.before[i] != nil {
		return p.before[i], p.after[i], nil
	}
	after, err = untyped(object)
	return nil, after, err
}

// plan compares the desired objects of a job with the existing ones.
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
			plan.placed = true // a user who may not see pods changes the Job in place, as before
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

// lastApplied renders the YAML that the job was last applied from; nil if it cannot be parsed any more.
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

// obsolete reads the objects of the job that its YAML no longer mentions. Claims stay: they hold data.
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

// read returns the object from the API server, nil if it does not exist.
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

// untyped returns an object as it is sent: without status and without empty fields.
func untyped(object client.Object) (*unstructured.Unstructured, error) {
	tree, err := render.Tree(object)
	return &unstructured.Unstructured{Object: tree}, err
}

func isOwned(object, owner metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == owner.GetUID()
	})
}

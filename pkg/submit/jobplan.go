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
	// retainedClaims are the job's claims that its YAML no longer mentions: they hold data.
	retainedClaims []*unstructured.Unstructured
	// unreserved says that the job has not reserved its name yet.
	unreserved bool
	// keeper owns the objects of before while the job is replaced; nil for none.
	keeper client.Object
}

func (p *jobPlan) hasChanges() bool {
	return p.fresh || len(p.obsolete) > 0 || slices.Contains(p.changed, true) || p.hasUnfinishedCreation()
}

// hasUnfinishedCreation reports whether part of the job's creation is still to be done, which no diff shows.
func (p *jobPlan) hasUnfinishedCreation() bool {
	return p.unreserved || p.live != nil && isIncomplete(p.live) || len(p.keptParts()) > 0
}

// startsOver reports whether the plan changes a Deployment in place such that Kubernetes recreates its pods.
func (p *jobPlan) startsOver() bool {
	if _, ok := p.live.(*appsv1.Deployment); !ok || p.before[0] == nil {
		return false
	}
	return !reflect.DeepEqual(podTemplate(p.before[0]), podTemplate(p.after[0]))
}

// podTemplate returns the pod template of an object.
func podTemplate(object *unstructured.Unstructured) any {
	out, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template") // nil if it has none
	return out
}

// diffObjects returns all changes as a diff.
func (p *jobPlan) diffObjects() (string, error) {
	var out strings.Builder
	for i, object := range p.desired {
		before, after, err := p.beforeAndAfter(i, object)
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

// beforeAndAfter returns an object before and after the change.
func (p *jobPlan) beforeAndAfter(i int, object client.Object) (before, after *unstructured.Unstructured, err error) {
	if !p.fresh && p.before[i] != nil {
		return p.before[i], p.after[i], nil
	}
	after, err = toUnstructured(object)
	return nil, after, err
}

// planJob compares the desired objects of a job with the existing ones.
func (c *Client) planJob(
	ctx context.Context, live client.Object, desired []client.Object, opts render.Options,
) (*jobPlan, error) {
	jobplan.PreserveState(desired[0], live)
	last := lastApplied(live, opts)
	plan := &jobPlan{live: live, desired: desired}
	if jobplan.ChangesTimeLimit(desired[0], live) {
		var err error
		switch plan.placed, err = c.isPlaced(ctx, live); {
		case apierrors.IsForbidden(err):
			plan.placed = true // a user who may not see pods changes the Job in place, as before
		case err != nil:
			return nil, err
		}
	}
	for i, object := range desired {
		before, err := c.readObject(ctx, object)
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
					return nil, &ExistsError{Namespace: before.GetNamespace(), Object: describeObject(before)}
				}
				jobplan.PreserveState(object, before)
			}
			if after, changed, err = jobplan.Merge(before, findObject(last, object), jobplan.InPlace(object, live, plan.placed)); err != nil {
				return nil, err
			}
		}
		plan.before, plan.after = append(plan.before, before), append(plan.after, after)
		plan.changed = append(plan.changed, changed)
	}
	reserved, err := c.isNameReserved(ctx, live)
	if err != nil {
		return nil, err
	}
	plan.unreserved = !reserved
	if plan.obsolete, err = c.findObsolete(ctx, live, last, desired); err != nil {
		return nil, err
	}
	plan.retainedClaims, err = c.unmentionedClaims(ctx, live, last, desired)
	return plan, err
}

// lastApplied renders the YAML that the job was last applied from; nil if it cannot be parsed any more.
func lastApplied(live client.Object, opts render.Options) []client.Object {
	objects, err := renderObjects(live, live.GetAnnotations()[names.AnnotationSubmitted], opts)
	if err != nil {
		return nil
	}
	return objects
}

// findObject returns the object of the same kind and name, nil if there is none.
func findObject(objects []client.Object, like client.Object) client.Object {
	for _, object := range objects {
		if describeObject(object) == describeObject(like) {
			return object
		}
	}
	return nil
}

// findObsolete reads the objects of the job that its YAML no longer mentions. Claims stay: they hold data.
func (c *Client) findObsolete(
	ctx context.Context, live client.Object, last, desired []client.Object,
) ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, object := range last {
		if _, ok := object.(*corev1.PersistentVolumeClaim); ok || findObject(desired, object) != nil {
			continue
		}
		found, err := c.readObject(ctx, object)
		if err != nil {
			return nil, err
		}
		if found != nil && isOurs(found) && isOwned(found, live) {
			out = append(out, found)
		}
	}
	return out, nil
}

// readObject returns the object from the API server, nil if it does not exist.
func (c *Client) readObject(ctx context.Context, like client.Object) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(like.GetObjectKind().GroupVersionKind())
	err := c.api.Get(ctx, client.ObjectKeyFromObject(like), out)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, phrase.Errorf("reading %s: %w", describeObject(like), err)
	}
	return out, nil
}

// toUnstructured returns an object as it is sent: without status and without empty fields.
func toUnstructured(object client.Object) (*unstructured.Unstructured, error) {
	tree, err := render.Tree(object)
	return &unstructured.Unstructured{Object: tree}, err
}

func isOwned(object, owner metav1.Object) bool {
	return slices.ContainsFunc(object.GetOwnerReferences(), func(reference metav1.OwnerReference) bool {
		return reference.UID == owner.GetUID()
	})
}

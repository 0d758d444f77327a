package submit

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// QuotaOptions are those of writing quotas.
type QuotaOptions struct {
	// DryRun lets the API server check the change, and changes nothing.
	DryRun bool
	// DeleteNamespaces deletes, with a quota, those of its namespaces that gpuctl created, and all that is in them.
	DeleteNamespaces bool
	// Note receives messages about what the quota bounds beyond its document; may be nil.
	Note func(sentence phrase.Text)
}

// CreateQuota creates a quota in its namespaces, and creates missing namespaces. If a namespace already has a quota, which is an [ExistsError], or
// refuses it, everything created is deleted again.
func (c *Client) CreateQuota(ctx context.Context, quota *workload.Quota, opts QuotaOptions) error {
	if err := c.boundMIGSlices(ctx, quota, nil, opts); err != nil {
		return err
	}
	var made []client.Object
	for _, object := range render.Quota(quota) {
		created, err := c.createForQuota(ctx, object, opts)
		if err != nil {
			return c.deleteCreated(ctx, made, err)
		}
		if created {
			made = append(made, object)
		}
	}
	return nil
}

// createForQuota creates a quota, or a namespace unless it exists. A dry run cannot check a quota in a namespace that does not exist yet.
func (c *Client) createForQuota(ctx context.Context, object client.Object, opts QuotaOptions) (created bool, err error) {
	_, isNamespace := object.(*corev1.Namespace)
	if opts.DryRun {
		err = c.explainCreate(ctx, object, c.api.Create(ctx, object, client.DryRunAll))
		if !isNamespace && apierrors.IsNotFound(err) {
			err = nil
		}
	} else {
		err = c.createOne(ctx, object)
		created = err == nil
	}
	if isNamespace && errors.As(err, new(*ExistsError)) {
		err = nil
	}
	return created, err
}

// ForeignQuotaError says that a namespace already has another quota.
type ForeignQuotaError struct{ Quota, Namespace, Other string }

func (e *ForeignQuotaError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ForeignQuotaError) Message() phrase.Text {
	return phrase.Textf("quota %q: namespace %s has quota %q already, and a namespace has only one", e.Quota, e.Namespace, e.Other)
}

// ApplyQuota makes a quota match its document: it changes bounds that differ, and removes the quota from namespaces that the document does not name.
// If nothing differs, nothing is written.
func (c *Client) ApplyQuota(ctx context.Context, quota *workload.Quota, opts QuotaOptions) (Result, error) {
	result := Result{Ref: Ref{Name: quota.Name, Kind: string(workload.KindQuota)}, Action: ActionUnchanged}
	present, err := c.Quotas(ctx, quota.Name)
	if err != nil {
		return Result{}, err
	}
	if err := c.checkPreconditions(quotaObjects(present)); err != nil {
		return Result{}, err
	}
	if err := c.boundMIGSlices(ctx, quota, present, opts); err != nil {
		return Result{}, err
	}
	plan := &jobPlan{}
	for _, object := range render.Quota(quota) {
		if err := c.planQuota(ctx, plan, object); err != nil {
			return Result{}, err
		}
	}
	for i := range present {
		if findObject(plan.desired, &present[i]) == nil {
			tree, err := toUnstructured(&present[i])
			if err != nil {
				return Result{}, err
			}
			plan.obsolete = append(plan.obsolete, tree)
		}
	}
	if result.Diff, err = plan.diffObjects(); err != nil || !plan.hasChanges() {
		return result, err
	}
	result.Action = ActionConfigured
	if len(present) == 0 {
		result.Action = ActionCreated
	}
	return result, c.writePlan(ctx, plan, ApplyOptions{Force: true, DryRun: opts.DryRun})
}

func quotaObjects(quotas []corev1.ResourceQuota) []client.Object {
	out := make([]client.Object, len(quotas))
	for i := range quotas {
		out[i] = &quotas[i]
	}
	return out
}

// planQuota compares one object of a quota with the existing one. An existing namespace is not changed.
func (c *Client) planQuota(ctx context.Context, plan *jobPlan, object client.Object) error {
	before, err := c.readObject(ctx, object)
	if err != nil {
		return err
	}
	after, changed := before, true
	if before != nil {
		if _, ok := object.(*corev1.Namespace); ok {
			return nil
		}
		quota := object.GetLabels()[names.LabelQuota]
		if other := before.GetLabels()[names.LabelQuota]; other != quota {
			return &ForeignQuotaError{Quota: quota, Namespace: object.GetNamespace(), Other: other}
		}
		if after, changed, err = jobplan.Merge(before, quotaBefore(before), object); err != nil {
			return err
		}
	}
	plan.desired = append(plan.desired, object)
	plan.before, plan.after = append(plan.before, before), append(plan.after, after)
	plan.changed = append(plan.changed, changed)
	return nil
}

// quotaBefore returns the previous bounds of a quota, so that bounds which its document no longer mentions are removed.
func quotaBefore(live *unstructured.Unstructured) client.Object {
	out := &corev1.ResourceQuota{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, out); err != nil {
		return nil
	}
	return &corev1.ResourceQuota{
		TypeMeta:   out.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{Name: out.Name, Namespace: out.Namespace},
		Spec:       out.Spec,
	}
}

// Quotas reads the parts of a quota of gpuctl, one per namespace.
func (c *Client) Quotas(ctx context.Context, name string) ([]corev1.ResourceQuota, error) {
	var found corev1.ResourceQuotaList
	labels := client.MatchingLabels{names.LabelManagedBy: names.ManagedByGpuctl, names.LabelQuota: name}
	if err := c.api.List(ctx, &found, labels); err != nil {
		return nil, phrase.Errorf("looking for quota %s: %w", name, err)
	}
	for i := range found.Items {
		withKind(&found.Items[i], corev1.SchemeGroupVersion.WithKind("ResourceQuota"))
	}
	return found.Items, nil
}

package submit

import (
	"context"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// EditOptions are those of [Client.Retry], [Client.SetPriority], [Client.Move], [Client.Scale] and [Client.Rewrite].
type EditOptions struct {
	// Restart allows a running job to start over.
	Restart bool
	// AllTasks allows an array to start over, including tasks that have succeeded.
	AllTasks bool
	// Overrides change the YAML of a job that [Client.Retry] starts over.
	Overrides jobplan.Overrides
	// DryRun lets the API server check the change, and changes nothing.
	DryRun bool
	// Render contains the render options; the namespace is the job's own.
	Render render.Options
	// Presets reads the presets that a job may name, for [Client.Rewrite]; nil for none.
	Presets func(context.Context) (map[string]string, error)
}

// Retry starts a finished job over. See [jobplan.Retry].
func (c *Client) Retry(ctx context.Context, ref Ref, opts EditOptions) (Result, error) {
	top, err := c.TopObject(ctx, ref)
	if err != nil {
		return Result{}, err
	}
	step, again, err := jobplan.Retry(top)
	if err != nil {
		return Result{}, err
	}
	result := newResult(top, ActionRetried)
	result.WaitsFor = jobplan.DependenciesOf(top).Jobs
	if !again && !opts.Overrides.IsEmpty() {
		return Result{}, &ServiceOverridesError{Ref: result.Ref}
	}
	if !again {
		return result, c.patchObject(ctx, top, step.Patch, opts.DryRun)
	}
	if err := checkTasks(top, opts); err != nil {
		return Result{}, err
	}
	source, err := opts.Overrides.Apply(workload.Kind(result.Ref.Kind), top.GetAnnotations()[names.AnnotationSubmitted])
	if err != nil {
		return Result{}, err
	}
	objects, err := renderObjects(top, source, opts.Render)
	if err != nil {
		return Result{}, err
	}
	plan, err := c.planJob(ctx, clearedForRestart(top), objects, opts.Render)
	if err != nil {
		return Result{}, err
	}
	plan.live = top
	return result, c.replaceJob(ctx, plan, opts.DryRun)
}

// ServiceOverridesError says that a service is started over as it is, since its pods can be changed at any time.
type ServiceOverridesError struct{ Ref Ref }

func (e *ServiceOverridesError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ServiceOverridesError) Message() phrase.Text {
	return phrase.Textf("job %[1]q is of kind %[2]s, which is started over as it is\nStart it over without --set, then change it: gpuctl edit %[1]s -n %[3]s",
		e.Ref.Name, e.Ref.Kind, e.Ref.Namespace)
}

// checkTasks refuses to repeat succeeded tasks, unless the options allow it.
func checkTasks(top client.Object, opts EditOptions) error {
	job, ok := asBatchJob(top)
	if !ok || opts.AllTasks || !quota.IsArray(job) || job.Status.Succeeded == 0 || job.Status.Succeeded >= *job.Spec.Completions {
		return nil
	}
	return &DoneTasksError{Ref: newResult(top, "").Ref, Tasks: *job.Spec.Completions, Succeeded: job.Status.Succeeded}
}

// DoneTasksError says that succeeded tasks of an array would run again.
type DoneTasksError struct {
	Ref              Ref
	Tasks, Succeeded int32
}

func (e *DoneTasksError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *DoneTasksError) Message() phrase.Text {
	return phrase.Textf("job %q has %d tasks, and %d have succeeded: they would run again, too, since Kubernetes starts a Job over as a whole\n"+
		"Start all of them over, with --all-tasks: gpuctl retry %s -n %s --all-tasks", e.Ref.Name, e.Tasks, e.Succeeded, e.Ref.Name, e.Ref.Namespace)
}

// clearedForRestart returns a top object without the annotations of having been paused or cancelled.
func clearedForRestart(top client.Object) client.Object {
	out := top.DeepCopyObject().(client.Object)
	annotations := maps.Clone(out.GetAnnotations())
	for _, key := range []string{
		names.AnnotationPausedAt, names.AnnotationPausedBecause, names.AnnotationCancelledAt, names.AnnotationReplicas, names.AnnotationIncomplete,
		names.AnnotationQuotaBehind, names.AnnotationQuotaTurn,
	} {
		delete(annotations, key)
	}
	out.SetAnnotations(annotations)
	job, ok := asBatchJob(out)
	if !ok {
		return out
	}
	job.Spec.Suspend = nil
	if again := jobplan.DependenciesOf(top).Jobs; len(again) > 0 {
		annotations[names.AnnotationWaitsFor] = strings.Join(again, ",")
		job.Spec.Suspend = ptr.To(true)
	}
	return out
}

// SetPriority changes the priority of a job that waits or is paused.
//
// The priority of a pod is immutable, so a running job starts over, which the options must allow.
func (c *Client) SetPriority(
	ctx context.Context, ref Ref, priority workload.Priority, opts EditOptions,
) (Result, error) {
	return c.editField(ctx, ref, "job.priority", string(priority), opts)
}

// UnknownPoolError says that no node is in a pool.
type UnknownPoolError struct{ Pool string }

func (e *UnknownPoolError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *UnknownPoolError) Message() phrase.Text {
	return phrase.Textf("pool %q has no nodes, so the job would wait forever. See: gpuctl get pools", e.Pool)
}

// Move moves a job that waits or is paused to another pool. A running job starts over, which the options must allow.
func (c *Client) Move(ctx context.Context, ref Ref, pool string, opts EditOptions) (Result, error) {
	if err := c.checkPool(ctx, pool); err != nil {
		return Result{}, err
	}
	return c.editField(ctx, ref, "resources.pool", pool, opts)
}

// checkPool checks that the pool has a node. It is skipped for a user who may not list nodes.
func (c *Client) checkPool(ctx context.Context, pool string) error {
	if pool == names.DefaultPool {
		return nil
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	err := c.api.List(ctx, nodes, client.MatchingLabels{names.LabelPool: pool}, client.Limit(1))
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return phrase.Errorf("looking for the nodes of pool %s: %w", pool, err)
	case len(nodes.Items) == 0:
		return &UnknownPoolError{Pool: pool}
	}
	return nil
}

// editField changes one field of the job's submitted YAML, and applies the result.
func (c *Client) editField(ctx context.Context, ref Ref, path, value string, opts EditOptions) (Result, error) {
	return c.changeSource(ctx, ref, func(ctx context.Context, c *Client, top client.Object, doc workload.Document) (Result, error) {
		source, err := jobplan.SetField(doc.Source, path, value)
		if err != nil {
			return Result{}, phrase.Errorf("changing %s of job %s: %w", path, ref.Name, err)
		}
		objects, err := renderObjects(top, source, opts.Render)
		if err != nil {
			return Result{}, err
		}
		if sameLabels(top, objects[0]) {
			return newResult(top, ActionUnchanged), nil
		}
		if err := c.checkEditable(ctx, top, opts); err != nil {
			return Result{}, err
		}
		return c.Apply(ctx, objects, ApplyOptions{Replace: true, Force: true, DryRun: opts.DryRun, Render: opts.Render})
	})
}

// sameLabels reports whether two top objects have the same pool and priority.
func sameLabels(a, b client.Object) bool {
	for _, key := range []string{names.LabelPool, names.LabelPriority} {
		if a.GetLabels()[key] != b.GetLabels()[key] {
			return false
		}
	}
	return true
}

func (c *Client) checkEditable(ctx context.Context, top client.Object, opts EditOptions) error {
	state := jobplan.StateOf(top)
	if state == jobplan.StatePaused || state == jobplan.StateActive && opts.Restart {
		return nil
	}
	refused := &jobplan.StateError{Job: jobNameOf(top), State: state}
	if state != jobplan.StateActive {
		refused.Hint = phrase.Textf("Create it again with what it should ask for")
		return refused
	}
	placed, err := c.isPlaced(ctx, top)
	if placed {
		return &RunningError{Ref: newResult(top, "").Ref}
	}
	return err
}

// isPlaced reports whether a pod of a job has a node and has not ended.
func (c *Client) isPlaced(ctx context.Context, top client.Object) (bool, error) {
	pods, err := c.listPods(ctx, top)
	return slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName != "" && !gpu.HasEnded(&pod) }), err
}

// RunningError says that a running job would have to start over.
type RunningError struct{ Ref Ref }

func (e *RunningError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *RunningError) Message() phrase.Text {
	return phrase.Textf("job %q runs, and Kubernetes changes nothing of a pod that does\n"+
		"Pause it first (gpuctl pause %s), or start it over with --restart", e.Ref.Name, e.Ref.Name)
}

// NoSourceError says that a job does not contain its submitted YAML.
type NoSourceError struct{ Ref Ref }

func (e *NoSourceError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *NoSourceError) Message() phrase.Text {
	return phrase.Textf("job %q does not hold the YAML that it was made from: apply its file instead", e.Ref.Name)
}

// OtherJobsSourceError says that the YAML stored in a job describes another job, because somebody changed it by hand. Applying it would write to that
// other job, with the rights of the caller instead of those of the person who changed it.
type OtherJobsSourceError struct{ Ref Ref }

func (e *OtherJobsSourceError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *OtherJobsSourceError) Message() phrase.Text {
	return phrase.Textf("the YAML that job %q holds is that of another job, since somebody has changed its annotation %s: apply its file instead",
		e.Ref.Name, names.AnnotationSubmitted)
}

// submittedDocument parses the submitted YAML of an existing job.
func submittedDocument(top client.Object, source string) (workload.Document, error) {
	doc, err := parseSource(top, source)
	if err == nil && !isDocumentOf(doc, top) {
		return workload.Document{}, &OtherJobsSourceError{Ref: newResult(top, "").Ref}
	}
	return doc, err
}

// isDocumentOf reports whether a document describes the job of an object.
func isDocumentOf(doc workload.Document, top client.Object) bool {
	return string(doc.Kind) == jobKindOf(top) && doc.Name == jobNameOf(top) && (doc.Namespace == "" || doc.Namespace == top.GetNamespace())
}

// parseSource parses the new YAML of an existing job.
func parseSource(top client.Object, source string) (workload.Document, error) {
	if source == "" {
		return workload.Document{}, &NoSourceError{Ref: newResult(top, "").Ref}
	}
	docs, diagnostics := workload.Parse("job "+jobNameOf(top), []byte(source))
	if diagnostics.HasErrors() {
		return workload.Document{}, phrase.Errorf("reading the YAML of job %s: %s", jobNameOf(top), diagnostics[0].Message)
	}
	if len(docs) != 1 {
		return workload.Document{}, phrase.Errorf("reading the YAML of job %s: it holds %d documents, want one", jobNameOf(top), len(docs))
	}
	docs[0].Filled = top.GetAnnotations()[names.AnnotationPresetFilled]
	docs[0].PoolShare = top.GetAnnotations()[names.AnnotationPoolShare]
	docs[0].Upload = workload.ParseUpload(top.GetAnnotations()[names.AnnotationUpload])
	return docs[0], nil
}

// renderObjects renders the YAML of an existing job.
func renderObjects(top client.Object, source string, opts render.Options) ([]client.Object, error) {
	doc, err := submittedDocument(top, source)
	if err != nil {
		return nil, err
	}
	opts.Namespace = top.GetNamespace()
	objects, _, err := render.Objects(doc, opts)
	return objects, err
}

package jobplan

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/render"
)

// Merge returns the result of applying desired to live, an object from the API server, and whether they differ. Fields that last, the previously
// applied object, has and desired lacks are removed; all other fields that desired does not name are kept. A nil last removes nothing.
//
// It is the three-way merge of kubectl apply: missing API server defaults are not a difference.
func Merge(live *unstructured.Unstructured, last, desired client.Object) (*unstructured.Unstructured, bool, error) {
	if last == nil {
		last = desired
	}
	var body [3][]byte
	for i, object := range []client.Object{last, desired} {
		tree, err := render.Tree(object)
		if err != nil {
			return nil, false, err
		}
		if body[i], err = json.Marshal(tree); err != nil {
			return nil, false, phrase.Errorf("encoding %s: %w", object.GetName(), err)
		}
	}
	var err error
	if body[2], err = live.MarshalJSON(); err != nil {
		return nil, false, phrase.Errorf("encoding %s: %w", live.GetName(), err)
	}
	merged, err := threeWayMerge(body[0], body[1], body[2], desired)
	if err != nil {
		return nil, false, phrase.Errorf("comparing %s with what is there: %w", desired.GetName(), err)
	}
	after := &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(merged); err != nil {
		return nil, false, phrase.Errorf("decoding %s: %w", desired.GetName(), err)
	}
	return after, !reflect.DeepEqual(live.Object, after.Object), nil
}

// threeWayMerge uses the fields of a Go type to find lists that are merged by key; without a Go type it replaces lists.
func threeWayMerge(last, desired, live []byte, object client.Object) ([]byte, error) {
	if _, ok := object.(*unstructured.Unstructured); ok {
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(last, desired, live)
		if err != nil {
			return nil, err
		}
		return jsonpatch.MergePatch(live, patch)
	}
	schema, err := strategicpatch.NewPatchMetaFromStruct(object)
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateThreeWayMergePatch(last, desired, live, schema, true)
	if err != nil {
		return nil, err
	}
	return strategicpatch.StrategicMergePatchUsingLookupPatchMeta(live, patch, schema)
}

// stateAnnotations are the annotations that record what was done to a job since its creation. Applying its YAML keeps them.
var stateAnnotations = []string{
	names.AnnotationSubmission, names.AnnotationUser, names.AnnotationIncomplete,
	names.AnnotationPausedAt, names.AnnotationPausedBecause, names.AnnotationCancelledAt, names.AnnotationReplicas,
	names.AnnotationNotified, names.AnnotationNotifiedEvictions, names.AnnotationNotifyFailed, names.AnnotationLastNotified,
}

// PreserveState copies from live to desired what is not in the author's YAML: the owners, and the paused or cancelled state. Applying the YAML of a
// paused job does not resume it.
func PreserveState(desired, live client.Object) {
	desired.SetOwnerReferences(live.GetOwnerReferences())
	annotations := maps.Clone(desired.GetAnnotations())
	for _, key := range stateAnnotations {
		delete(annotations, key)
		if value, ok := live.GetAnnotations()[key]; ok {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[key] = value
		}
	}
	desired.SetAnnotations(keepWaiting(annotations, live))
	keepHalted(desired, live)
}

// InPlace returns the new state of a Job that is not recreated. Its pod template is immutable, so its pods keep their original deadline if the Job
// itself ends them earlier: an older gpuctl may have created it without a deadline, or the Job may get less time while its pods are placed. A waiting
// Job should rather be recreated, because the scheduler uses the deadline of the pods. Everything else is returned unchanged.
func InPlace(desired, live client.Object, placed bool) client.Object {
	after, ok := desired.(*batchv1.Job)
	before, also := live.(*batchv1.Job)
	if !ok || !also || after.Spec.ActiveDeadlineSeconds == nil {
		return desired
	}
	had, wants := before.Spec.Template.Spec.ActiveDeadlineSeconds, after.Spec.Template.Spec.ActiveDeadlineSeconds
	if had != nil && (wants == nil || *wants >= *had) {
		return desired
	}
	if !placed && ChangesTimeLimit(after, before) {
		return desired
	}
	after = after.DeepCopy()
	after.Spec.Template.Spec.ActiveDeadlineSeconds = had
	return after
}

// ChangesTimeLimit reports whether the time limit of a Job changes.
func ChangesTimeLimit(desired, live client.Object) bool {
	after, ok := desired.(*batchv1.Job)
	before, also := live.(*batchv1.Job)
	return ok && also && after.Spec.ActiveDeadlineSeconds != nil && !ptr.Equal(before.Spec.ActiveDeadlineSeconds, after.Spec.ActiveDeadlineSeconds)
}

// InheritMetadata copies to desired, which replaces another object, the labels and annotations of merged, the result of [Merge], that desired does
// not set. They were written by others. desired itself records what was done to the job.
func InheritMetadata(desired client.Object, merged metav1.Object) {
	labels := maps.Clone(merged.GetLabels())
	annotations := maps.Clone(merged.GetAnnotations())
	for _, key := range stateAnnotations {
		delete(annotations, key)
	}
	desired.SetLabels(mergeMaps(labels, desired.GetLabels()))
	desired.SetAnnotations(mergeMaps(annotations, desired.GetAnnotations()))
}

// mergeMaps adds the second of two maps to the first. Either may be nil.
func mergeMaps(out, wins map[string]string) map[string]string {
	if out == nil {
		return wins
	}
	maps.Copy(out, wins)
	return out
}

// keepWaiting keeps the list of jobs that a job still waits for. If its dependencies change, it waits for all of them; if it has finished waiting, it
// does not start again.
func keepWaiting(annotations map[string]string, live client.Object) map[string]string {
	before, waits := live.GetAnnotations()[names.AnnotationWaitsFor]
	switch {
	case !waits:
		delete(annotations, names.AnnotationWaitsFor)
	case annotations[names.AnnotationDependsOn] == "": // it no longer waits for any job
	case annotations[names.AnnotationDependsOn] == live.GetAnnotations()[names.AnnotationDependsOn]:
		annotations[names.AnnotationWaitsFor] = before
	}
	return annotations
}

// startsWithoutWaiting reports whether a Job that is not paused, and only waits for others, no longer waits for any. It sets the Job to start,
// because nothing else would.
func startsWithoutWaiting(desired, live *batchv1.Job) bool {
	_, waited := live.Annotations[names.AnnotationWaitsFor]
	_, waits := desired.Annotations[names.AnnotationWaitsFor]
	if !waited || waits || PausedByUser(live) || StateOf(live) != StatePaused {
		return false
	}
	desired.Spec.Suspend = ptr.To(false)
	return true
}

// keepHalted prevents the pods of a paused or cancelled job from coming back.
func keepHalted(desired, live client.Object) {
	state := StateOf(live)
	halted := state == StatePaused || state == StateCancelled
	switch object := desired.(type) {
	case *batchv1.Job:
		if before, ok := live.(*batchv1.Job); ok && (halted || state == StateActive) {
			keepSuspended(object, before, state)
		}
	case *appsv1.Deployment:
		if halted && ptr.Deref(object.Spec.Replicas, 0) > 0 {
			metav1.SetMetaDataAnnotation(&object.ObjectMeta, names.AnnotationReplicas, fmt.Sprint(*object.Spec.Replicas))
			object.Spec.Replicas = ptr.To(int32(0))
		}
	}
}

// keepSuspended keeps a suspended Job suspended, and a running Job running.
func keepSuspended(desired, live *batchv1.Job, state State) {
	if state == StateActive {
		if desired.Spec.Suspend != nil {
			desired.Spec.Suspend = live.Spec.Suspend
		}
		return
	}
	if startsWithoutWaiting(desired, live) {
		return
	}
	desired.Spec.Suspend = live.Spec.Suspend
	if state == StateCancelled {
		desired.Spec.ActiveDeadlineSeconds = live.Spec.ActiveDeadlineSeconds
	}
}

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

// Merge returns what applying desired makes of live, an object as the API server has it, and whether that differs.
// Fields that last has, the object as it was applied before, and desired has not any more, go; all others that desired
// does not name stay as they are. A nil last removes nothing.
//
// It is the three-way merge by which kubectl applies: what an object lacks of the defaults of the API server is no
// difference.
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
	merged, err := merge(body[0], body[1], body[2], desired)
	if err != nil {
		return nil, false, phrase.Errorf("comparing %s with what is there: %w", desired.GetName(), err)
	}
	after := &unstructured.Unstructured{}
	if err := after.UnmarshalJSON(merged); err != nil {
		return nil, false, phrase.Errorf("decoding %s: %w", desired.GetName(), err)
	}
	return after, !reflect.DeepEqual(live.Object, after.Object), nil
}

// merge knows by the fields of a Go type which lists are merged and by which key; without one it replaces lists.
func merge(last, desired, live []byte, object client.Object) ([]byte, error) {
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

// kept are the annotations that say what was done to a job since it was created. Applying its YAML keeps them.
var kept = []string{
	names.AnnotationSubmission, names.AnnotationUser, names.AnnotationIncomplete,
	names.AnnotationPausedAt, names.AnnotationPausedBecause, names.AnnotationCancelledAt, names.AnnotationReplicas,
	names.AnnotationNotified, names.AnnotationNotifiedEvictions, names.AnnotationNotTold, names.AnnotationTold,
}

// Keep gives desired what live has beside its author's YAML: who owns it, and that it is paused or cancelled. Applying
// the YAML of a paused job does not resume it.
func Keep(desired, live client.Object) {
	desired.SetOwnerReferences(live.GetOwnerReferences())
	annotations := maps.Clone(desired.GetAnnotations())
	for _, key := range kept {
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

// InPlace returns what a Job is to be if it is not made again. Its template never changes, so its pods keep the deadline that they
// were made with where the Job itself ends them before: a Job that a gpuctl of before made without, or that is given less time
// while its pods have places. One that waits is better made again: the scheduler goes by the deadline of the pods. All else is
// returned as it is.
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
	if !placed && LimitsTime(after, before) {
		return desired
	}
	after = after.DeepCopy()
	after.Spec.Template.Spec.ActiveDeadlineSeconds = had
	return after
}

// LimitsTime reports whether a Job is given another time limit than it has.
func LimitsTime(desired, live client.Object) bool {
	after, ok := desired.(*batchv1.Job)
	before, also := live.(*batchv1.Job)
	return ok && also && after.Spec.ActiveDeadlineSeconds != nil && !ptr.Equal(before.Spec.ActiveDeadlineSeconds, after.Spec.ActiveDeadlineSeconds)
}

// Inherit gives desired, which takes the place of another object, what others have written on that: the labels and
// annotations that merged has, the outcome of [Merge], and desired does not set. What was done to the job is for desired
// to say.
func Inherit(desired client.Object, merged metav1.Object) {
	labels := maps.Clone(merged.GetLabels())
	annotations := maps.Clone(merged.GetAnnotations())
	for _, key := range kept {
		delete(annotations, key)
	}
	desired.SetLabels(union(labels, desired.GetLabels()))
	desired.SetAnnotations(union(annotations, desired.GetAnnotations()))
}

// union adds the second of two maps to the first, either of which may be nil.
func union(out, wins map[string]string) map[string]string {
	if out == nil {
		return wins
	}
	maps.Copy(out, wins)
	return out
}

// keepWaiting keeps what a job still waits for. One that asks for other jobs now waits for all of them; one that has waited
// does not begin again.
func keepWaiting(annotations map[string]string, live client.Object) map[string]string {
	before, waits := live.GetAnnotations()[names.AnnotationWaitsFor]
	switch {
	case !waits:
		delete(annotations, names.AnnotationWaitsFor)
	case annotations[names.AnnotationDependsOn] == "": // it is to wait for nobody
	case annotations[names.AnnotationDependsOn] == live.GetAnnotations()[names.AnnotationDependsOn]:
		annotations[names.AnnotationWaitsFor] = before
	}
	return annotations
}

// startsAnyway reports whether a Job that nobody has paused, and that only waits for others, is to wait for none any more. It
// is told to start then, because nothing else would.
func startsAnyway(desired, live *batchv1.Job) bool {
	_, waited := live.Annotations[names.AnnotationWaitsFor]
	_, waits := desired.Annotations[names.AnnotationWaitsFor]
	if !waited || waits || pausedByUser(live) || StateOf(live) != StatePaused {
		return false
	}
	desired.Spec.Suspend = ptr.To(false)
	return true
}

// keepHalted keeps the pods of a paused or cancelled job from coming back.
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

// keepSuspended keeps a Job suspended that is, and one running that has waited for others, or never did.
func keepSuspended(desired, live *batchv1.Job, state State) {
	if state == StateActive {
		if desired.Spec.Suspend != nil {
			desired.Spec.Suspend = live.Spec.Suspend
		}
		return
	}
	if startsAnyway(desired, live) {
		return
	}
	desired.Spec.Suspend = live.Spec.Suspend
	if state == StateCancelled {
		desired.Spec.ActiveDeadlineSeconds = live.Spec.ActiveDeadlineSeconds
	}
}

package submit

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// UploadGoneError says that the folder sent with a job no longer exists in the cluster.
type UploadGoneError struct{ Ref Ref }

func (e *UploadGoneError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *UploadGoneError) Message() phrase.Text {
	return phrase.Textf("the folder that was sent with job %q is gone from namespace %s, because somebody deleted it\n"+
		"Send it again: gpuctl delete job %s, and create the job from its folder", e.Ref.Name, e.Ref.Namespace, e.Ref.Name)
}

// fillUpload fills a part of the folder sent with a job, of which the YAML has only the name, with its data from the cluster: a user who starts a job
// over has the YAML, but not the folder.
func fillUpload(object client.Object, before *unstructured.Unstructured) error {
	part, ok := object.(*corev1.ConfigMap)
	switch {
	case !ok || len(part.BinaryData) > 0:
		return nil
	case before == nil:
		return &UploadGoneError{Ref: Ref{Namespace: object.GetNamespace(), Name: jobNameOf(object)}}
	}
	var there corev1.ConfigMap
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(before.Object, &there); err != nil {
		return phrase.Errorf("reading %s: %w", describeObject(object), err)
	}
	part.BinaryData = there.BinaryData
	return nil
}

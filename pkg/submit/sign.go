package submit

import (
	"maps"

	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Sign notes on the top object of a job who submits it, as the API server knows them. What a job's YAML may say does
// not count.
func Sign(top client.Object, user string) {
	annotations := maps.Clone(top.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[names.AnnotationUser] = user
	top.SetAnnotations(annotations)
}

package submit

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// ForeignJobError says that gpuctl did not create a job, and therefore must not change or delete it.
type ForeignJobError struct {
	Namespace, Name string
	// Kind and Object are the kind and the name of the Kubernetes object.
	Kind, Object string
}

func (e *ForeignJobError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *ForeignJobError) Message() phrase.Text {
	kind := strings.ToLower(e.Kind)
	return phrase.Textf("job %q in namespace %s was not made by gpuctl: its %s %s lacks the label %s=%s\n"+
		"Change or delete it with what made it, or by hand: kubectl -n %s delete %s %s",
		e.Name, e.Namespace, kind, e.Object, names.LabelManagedBy, names.ManagedByGpuctl, e.Namespace, kind, e.Object)
}

// explainAbsent explains why there is no job for gpuctl to change: none has the name, one has the name but another kind, or gpuctl did not create it.
func (c *Client) explainAbsent(ctx context.Context, ref Ref) error {
	out := &inventory.NotFoundError{Namespace: ref.Namespace, Name: ref.Name, Kind: ref.Kind}
	for _, kind := range append(slices.Clone(topKinds), corev1.SchemeGroupVersion.WithKind("Pod")) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if c.api.List(ctx, list, client.InNamespace(ref.Namespace), client.MatchingLabels{names.LabelJob: ref.Name}) != nil {
			return out // the job is missing in any case
		}
		for i := range list.Items {
			object := &list.Items[i]
			switch {
			case ref.Kind != "" && jobKindOf(object) != ref.Kind:
				out.OtherKinds = append(out.OtherKinds, jobKindOf(object))
			case !isOurs(object):
				return &ForeignJobError{Namespace: ref.Namespace, Name: ref.Name, Kind: kind.Kind, Object: object.Name}
			}
		}
	}
	slices.Sort(out.OtherKinds)
	out.OtherKinds = slices.DeleteFunc(slices.Compact(out.OtherKinds), func(kind string) bool { return kind == "" })
	return out
}

package snapshot

import (
	"context"
	"encoding/json"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Gang is what a PodGroup says of its members.
type Gang struct {
	// MinMember is how many it needs at least.
	MinMember int32
	// SeveralOwners says that pods of different controllers are one gang.
	SeveralOwners bool
}

// Gangs wants what the PodGroups of these names say. One that is not there, or may not be seen, is left out.
func Gangs(groups ...types.NamespacedName) Want {
	return Want{part: PartPodGroups, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		s.Gangs = map[types.NamespacedName]Gang{}
		api, ok := client.CoreV1().RESTClient().(*rest.RESTClient)
		if !ok || api == nil { // a client of a test
			return nil
		}
		for _, name := range groups {
			path := "/apis/" + names.PodGroupAPIVersion + "/namespaces/" + name.Namespace + "/podgroups/" + name.Name
			body, err := api.Get().AbsPath(path).Do(ctx).Raw()
			switch {
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
				continue
			case err != nil:
				return err
			}
			var group struct {
				Metadata metav1.ObjectMeta `json:"metadata"`
				Spec     struct {
					MinMember int32 `json:"minMember"`
				} `json:"spec"`
			}
			if json.Unmarshal(body, &group) != nil {
				continue // one that the scheduler cannot read either
			}
			s.Gangs[name] = Gang{MinMember: group.Spec.MinMember, SeveralOwners: group.Metadata.Annotations[names.AnnotationSeveralOwners] == names.True}
		}
		return nil
	}}
}

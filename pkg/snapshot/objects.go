package snapshot

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ObjectRef identifies a namespaced object.
type ObjectRef struct {
	Resource        schema.GroupVersionResource
	Namespace, Name string
}

func (r ObjectRef) apiPath() string {
	return fmt.Sprintf("/apis/%s/%s/namespaces/%s/%s/%s", r.Resource.Group, r.Resource.Version, r.Namespace, r.Resource.Resource, r.Name)
}

// Objects queries untyped objects. An object that does not exist, is of an unknown kind, or may not be read, is left out.
func Objects(refs ...ObjectRef) Query {
	return Query{part: PartObjects, read: func(ctx context.Context, client kubernetes.Interface, s *Snapshot) error {
		s.Objects = map[ObjectRef]*unstructured.Unstructured{}
		api, ok := client.CoreV1().RESTClient().(*rest.RESTClient)
		if !ok || api == nil { // a client of a test
			return nil
		}
		for _, ref := range refs {
			// The client prefers protobuf, which kinds of Kubernetes have and untyped objects are not read from.
			body, err := api.Get().AbsPath(ref.apiPath()).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw()
			switch {
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
				continue
			case err != nil:
				return err
			}
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(body); err != nil {
				return fmt.Errorf("reading %s: %w", ref.apiPath(), err)
			}
			s.Objects[ref] = object
		}
		return nil
	}}
}

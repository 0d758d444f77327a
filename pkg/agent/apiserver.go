package agent

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// apiServer reads and writes the few kinds that the agent needs. client-go's own clients know every kind of Kubernetes,
// which costs an agent on each node some 15 MB.
type apiServer struct {
	rest   *rest.RESTClient
	scheme *runtime.Scheme
}

func newAPIServer(config *rest.Config) (*apiServer, error) {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}, &corev1.Event{}, &corev1.EventList{}, &corev1.Pod{})
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	config = rest.CopyConfig(config)
	config.APIPath = "/api"
	config.GroupVersion = &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &apiServer{rest: client, scheme: scheme}, nil
}

// nodeListWatch lists and watches one node.
func (a *apiServer) nodeListWatch(name string) cache.ListerWatcher {
	return cache.NewListWatchFromClient(a.rest, "nodes", metav1.NamespaceAll, fields.OneTermEqualSelector(metav1.ObjectNameField, name))
}

// readNode returns a node in its committed state, nil if there is none. The right to list and watch nodes is sufficient.
func (a *apiServer) readNode(ctx context.Context, name string) (*corev1.Node, error) {
	var nodes corev1.NodeList
	options := &metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()}
	err := a.rest.Get().Resource("nodes").VersionedParams(options, metav1.ParameterCodec).Do(ctx).Into(&nodes)
	if err != nil || len(nodes.Items) == 0 {
		return nil, err
	}
	return &nodes.Items[0], nil
}

// patchNode changes a node, or its status.
func (a *apiServer) patchNode(ctx context.Context, name string, kind types.PatchType, data []byte, subresource ...string) error {
	return a.rest.Patch(kind).Resource("nodes").Name(name).SubResource(subresource...).Body(data).Do(ctx).Error()
}

var _ record.EventSink = (*apiServer)(nil)

// Create writes an event.
func (a *apiServer) Create(event *corev1.Event) (*corev1.Event, error) {
	return a.writeEvent(a.rest.Post().Body(event), event)
}

// Update is never called: events are patched.
func (a *apiServer) Update(event *corev1.Event) (*corev1.Event, error) {
	return a.writeEvent(a.rest.Put().Name(event.Name).Body(event), event)
}

// Patch counts a repeated event.
func (a *apiServer) Patch(event *corev1.Event, data []byte) (*corev1.Event, error) {
	return a.writeEvent(a.rest.Patch(types.StrategicMergePatchType).Name(event.Name).Body(data), event)
}

func (a *apiServer) writeEvent(request *rest.Request, event *corev1.Event) (*corev1.Event, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	written := &corev1.Event{}
	err := request.Namespace(event.Namespace).Resource("events").Do(ctx).Into(written)
	return written, err
}

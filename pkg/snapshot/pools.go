package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// GPUPools queries the settings of pools. If the cluster does not have the kind, or the user may not read it, there are none, and the part is
// unread, unless it is watched: the objects may appear.
func GPUPools() Query {
	items := func(l *names.GPUPoolList) []names.GPUPool { return l.Items }
	field := func(s *Snapshot) *[]names.GPUPool { return &s.GPUPools }
	once := queryList(PartGPUPools, Scope{}, func(c kubernetes.Interface) api[*names.GPUPoolList] { return gpuPools{c} }, items, field)
	watched := queryList(PartGPUPools, Scope{}, func(c kubernetes.Interface) api[*names.GPUPoolList] { return orEmpty{gpuPools{c}, absentFor} }, items, field)
	once.follow = watched.follow
	return once.IfAllowed()
}

// gpuPools reads our own kind with a client for Kubernetes' kinds, which avoids a second client and its connections.
type gpuPools struct{ client kubernetes.Interface }

const gpuPoolsPath = "/apis/" + names.GroupName + "/v1alpha1/gpupools"

// errNoGPUPools is the response of a cluster without the kind.
var errNoGPUPools = apierrors.NewNotFound(schema.GroupResource{Group: names.GroupName, Resource: "gpupools"}, "")

// absentFor is how long the watch of an absent or forbidden kind waits before it is retried.
const absentFor = 30 * time.Second

func (p gpuPools) newRequest(options *metav1.ListOptions) (*rest.Request, error) {
	return newAPIRequest(p.client, gpuPoolsPath, options, errNoGPUPools)
}

// newAPIRequest builds a request for objects of our own kinds; absent is the error without an API server.
func newAPIRequest(client kubernetes.Interface, path string, options *metav1.ListOptions, absent error) (*rest.Request, error) {
	api, ok := client.CoreV1().RESTClient().(*rest.RESTClient)
	if !ok || api == nil { // a client of a test
		return nil, absent
	}
	return api.Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).VersionedParams(options, scheme.ParameterCodec), nil
}

func (p gpuPools) List(ctx context.Context, options metav1.ListOptions) (*names.GPUPoolList, error) {
	request, err := p.newRequest(&options)
	if err != nil {
		return nil, err
	}
	list := &names.GPUPoolList{}
	return list, decodeList(ctx, request, PartGPUPools, list)
}

// decodeList decodes a list of our own kinds.
func decodeList(ctx context.Context, request *rest.Request, part Part, list any) error {
	result := request.Do(ctx)
	if err := result.Error(); err != nil { // Raw's does not say what the API server said
		return err
	}
	body, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, list); err != nil {
		return phrase.Errorf("reading the list of %s: %w", part, err)
	}
	return nil
}

func (p gpuPools) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	request, err := p.newRequest(&options)
	if err != nil {
		return nil, err
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet, "ClientWatchDecoding")
	return watch.NewStreamWatcher(&gpuPoolEvents{body: body, decoder: json.NewDecoder(body)}, reporter), nil
}

// orEmpty is an empty list, and a watch without events, if there are no such objects to see: informers continue without them, and find them when
// they appear.
type orEmpty struct {
	gpuPools
	askAgain time.Duration
}

func (o orEmpty) List(ctx context.Context, options metav1.ListOptions) (*names.GPUPoolList, error) {
	list, err := o.gpuPools.List(ctx, options)
	if isAbsent(err) {
		return &names.GPUPoolList{}, nil
	}
	return list, err
}

func (o orEmpty) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	events, err := o.gpuPools.Watch(ctx, options)
	if isAbsent(err) {
		nothing := watch.NewFakeWithChanSize(1, false)
		if ptr.Deref(options.SendInitialEvents, false) {
			nothing.Action(watch.Bookmark, &names.GPUPool{ObjectMeta: metav1.ObjectMeta{
				ResourceVersion: "0", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: names.True},
			}})
		}
		time.AfterFunc(o.askAgain, nothing.Stop)
		return nothing, nil
	}
	return events, err
}

func isAbsent(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// gpuPoolEvents decodes the events of a watch.
type gpuPoolEvents struct {
	body    io.ReadCloser
	decoder *json.Decoder
}

var _ watch.Decoder = (*gpuPoolEvents)(nil)

func (e *gpuPoolEvents) Decode() (watch.EventType, runtime.Object, error) {
	var event metav1.WatchEvent
	if err := e.decoder.Decode(&event); err != nil {
		return "", nil, err
	}
	kind := watch.EventType(event.Type)
	var object runtime.Object = &names.GPUPool{}
	if kind == watch.Error {
		object = &metav1.Status{}
	}
	if err := json.Unmarshal(event.Object.Raw, object); err != nil {
		return "", nil, errors.Join(phrase.Errorf("reading a change of a GPUPool"), err)
	}
	return kind, object, nil
}

func (e *gpuPoolEvents) Close() { _ = e.body.Close() } // there is no one to report to

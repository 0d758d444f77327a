package snapshot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// pools is an API server that knows GPUPools from some moment on, and has one.
type pools struct{ known, forbidden atomic.Bool }

func (p *pools) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != gpuPoolsPath || !p.known.Load() || p.forbidden.Load() {
		code := map[bool]int{true: http.StatusForbidden, false: http.StatusNotFound}[p.forbidden.Load()]
		w.WriteHeader(code)
		reason := map[int]metav1.StatusReason{http.StatusForbidden: metav1.StatusReasonForbidden, http.StatusNotFound: metav1.StatusReasonNotFound}[code]
		_ = json.NewEncoder(w).Encode(metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason})
		return
	}
	pool := names.GPUPool{ObjectMeta: metav1.ObjectMeta{Name: "train", ResourceVersion: "7"}, Spec: names.GPUPoolSpec{Description: "large"}}
	if r.URL.Query().Get("watch") == "" {
		_ = json.NewEncoder(w).Encode(names.GPUPoolList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []names.GPUPool{pool}})
		return
	}
	event := func(kind string, object any) {
		raw, _ := json.Marshal(object)
		fmt.Fprintf(w, `{"type":%q,"object":%s}`+"\n", kind, raw)
		w.(http.Flusher).Flush()
	}
	if r.URL.Query().Get("sendInitialEvents") == "true" {
		event("ADDED", pool)
		event("BOOKMARK", names.GPUPool{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "7", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	}
	pool.ResourceVersion, pool.Spec.Description = "8", "larger"
	event("MODIFIED", pool)
	<-r.Context().Done()
}

func serve(t *testing.T, p *pools) kubernetes.Interface {
	t.Helper()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// TestGPUPoolsThatAreNotThereAreNoError: a cluster need not know them, and a user need not see them.
func TestGPUPoolsThatAreNotThereAreNoError(t *testing.T) {
	known, unknown, forbidden := &pools{}, &pools{}, &pools{}
	known.known.Store(true)
	forbidden.forbidden.Store(true)
	tests := map[string]struct {
		client kubernetes.Interface
		want   int
		has    bool
	}{
		"a cluster that knows them":        {serve(t, known), 1, true},
		"one that does not":                {serve(t, unknown), 0, false},
		"a user who may not see them":      {serve(t, forbidden), 0, false},
		"a client that asks no API server": {fake.NewClientset(), 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Read(t.Context(), tc.client, GPUPools())
			if err != nil {
				t.Fatal(err)
			}
			if len(got.GPUPools) != tc.want || got.HasPart(PartGPUPools) != tc.has {
				t.Errorf("read %d, known %v, want %d and %v", len(got.GPUPools), got.HasPart(PartGPUPools), tc.want, tc.has)
			}
		})
	}
}

// TestGPUPoolsAreFollowedFromWhenTheyCome: who watches is not held up while there are none, and sees those that come later.
func TestGPUPoolsAreFollowedFromWhenTheyCome(t *testing.T) {
	cluster := &pools{}
	client := serve(t, cluster)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	changed := make(chan struct{}, 1)
	field := func(s *Snapshot) *[]names.GPUPool { return &s.GPUPools }
	source := orEmpty{gpuPools{client}, 50 * time.Millisecond}
	one := watchList(ctx, client, listWatch(api[*names.GPUPoolList](source), Scope{}), field, &watchProgress{changed: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	if !cache.WaitForCacheSync(ctx.Done(), one.synced) {
		t.Fatal("a watch of what is not there keeps everybody waiting")
	}
	cluster.known.Store(true)
	for {
		var now Snapshot
		one.fill(&now)
		if len(now.GPUPools) == 1 && now.GPUPools[0].Spec.Description == "larger" {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("GPUPools that came later are not seen: %+v", now.GPUPools)
		}
	}
}

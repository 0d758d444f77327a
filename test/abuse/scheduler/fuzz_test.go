package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// batch is how many objects there are at a time.
const batch = 500

// fuzzing is a run of hostile objects.
type fuzzing struct {
	*env
	mutator
	stored, refused map[string]int
}

// TestObjectsThatNobodyMeant has objects of every kind that the scheduler decodes come, change and go, as an administrator
// can write them, for whom no policy holds.
func TestObjectsThatNobodyMeant(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ABUSE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("to repeat: ABUSE_SEED=%d", seed)
	f := &fuzzing{newEnv(t), mutator{rand.New(rand.NewPCG(seed, 0))}, map[string]int{}, map[string]int{}} //nolint:gosec // repeatable
	stop := f.watchOthers()
	count := rounds(500, 10_000)
	for i := range count {
		kinds := []string{"pods", "pods", "pods", "nodes", "nodes", "podgroups", "priorityclasses"}
		kind := kinds[f.IntN(len(kinds))]
		f.create(kind, fmt.Sprintf("fuzz-%d", i))
		if f.IntN(4) == 0 {
			f.touch(kind, fmt.Sprintf("fuzz-%d", f.IntN(i+1)))
		}
		if i%batch == batch-1 || i == count-1 {
			f.clear()
		}
	}
	stop()
	f.schedulerIsWell()
	t.Logf("stored: %v, refused: %v", f.stored, f.refused)
	for _, kind := range slices.Sorted(maps.Keys(shapes)) {
		if f.stored[kind] < count/100 || f.refused[kind] == 0 {
			t.Errorf("%s: %d were stored and %d refused: this tries too little", kind, f.stored[kind], f.refused[kind])
		}
	}
}

func (f *fuzzing) path(kind string) (rest.Interface, string) {
	switch kind {
	case "pods":
		return client.CoreV1().RESTClient(), "/api/v1/namespaces/" + f.namespace + "/pods"
	case "nodes":
		return client.CoreV1().RESTClient(), "/api/v1/nodes"
	case "priorityclasses":
		return client.SchedulingV1().RESTClient(), "/apis/scheduling.k8s.io/v1/priorityclasses"
	}
	return client.CoreV1().RESTClient(), "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/" + f.namespace + "/podgroups"
}

// create sends an object as it is: a typed client would mend or refuse half of it.
func (f *fuzzing) create(kind, name string) {
	f.Helper()
	made := f.make(kind, name)
	made["apiVersion"], made["kind"] = map[string]string{
		"pods": "v1", "nodes": "v1", "priorityclasses": "scheduling.k8s.io/v1", "podgroups": names.PodGroupAPIVersion,
	}[kind], map[string]string{"pods": "Pod", "nodes": "Node", "priorityclasses": "PriorityClass", "podgroups": names.PodGroupKind}[kind]
	body, err := json.Marshal(made)
	f.must(err)
	c, path := f.path(kind)
	f.sent(kind, c.Post().AbsPath(path).SetHeader("Content-Type", "application/json").Body(body).Do(f.Context()).Error())
}

// touch changes an object that may be there, as its owner or its node's agent does while it is in use.
func (f *fuzzing) touch(kind, name string) {
	f.Helper()
	keys := map[string][]string{
		"pods":  {names.AnnotationGPUTypes, names.AnnotationGPUShare, names.AnnotationGPUMemoryMin, names.AnnotationGPUDevices, names.AnnotationDecision},
		"nodes": {names.AnnotationInventory},
	}[kind]
	patch := object{"metadata": object{"labels": object{names.LabelGPUType: f.text("T4"), names.LabelPodGroup: f.text("fuzz-1")}}}
	if len(keys) > 0 && f.IntN(4) > 0 {
		key := keys[f.IntN(len(keys))]
		patch = object{"metadata": object{"annotations": object{key: f.annotation(key)}}}
	}
	body, err := json.Marshal(patch)
	f.must(err)
	c, path := f.path(kind)
	f.sent(kind, c.Patch(types.MergePatchType).AbsPath(path, name).Body(body).Do(f.Context()).Error())
}

// sent counts what became of a request. The API server may refuse whatever it likes, and must not fail.
func (f *fuzzing) sent(kind string, err error) {
	f.Helper()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		f.stored[kind]++
	case errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError:
		f.refused[kind]++
	case errors.As(err, &status): // some objects that nobody meant are too much for the API server's own decoding
		f.refused[kind]++
		f.Logf("the API server fails: %.200s", err)
	default:
		f.Fatal(err)
	}
}

// clear takes all objects away, which the scheduler has to survive as well.
func (f *fuzzing) clear() {
	f.Helper()
	ctx, now := context.Background(), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	f.deletePods(ctx)
	f.must(untyped.Resource(podGroups).Namespace(f.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}))
	for _, kind := range []string{"nodes", "priorityclasses"} {
		c, path := f.path(kind)
		var list metav1.PartialObjectMetadataList
		raw, err := c.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
		f.must(err)
		f.must(json.Unmarshal(raw, &list))
		for _, item := range list.Items {
			if len(item.Name) > 5 && item.Name[:5] == "fuzz-" {
				if err := c.Delete().AbsPath(path, item.Name).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
					f.Error(err)
				}
			}
		}
	}
}

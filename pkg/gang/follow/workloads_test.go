package follow

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	pkggang "g8s.host/gpu-scheduler/pkg/gang"
)

// TestEachKindHasAnInformer of its own.
func TestEachKindHasAnInformer(t *testing.T) {
	if len(keysOfWorkloads) != len(pkggang.Kinds()) {
		t.Errorf("there are %d keys for %d kinds", len(keysOfWorkloads), len(pkggang.Kinds()))
	}
}

// TestEachProfileKnowsWhichKindsAreServed: they share the informers.
func TestEachProfileKnowsWhichKindsAreServed(t *testing.T) {
	scheme := runtime.NewScheme()
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range pkggang.Kinds() {
		lists[kind.Resource] = kind.Name + "List"
	}
	client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(scheme, lists)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	profiles := make([]map[string][]Workloads, 2)
	for i := range profiles {
		var err error
		if profiles[i], err = newWorkloads(factory, func() (dynamic.Interface, error) { return client, nil }); err != nil {
			t.Fatal(err)
		}
		if profiles[i][pkggang.KindJobSet][0].Served() {
			t.Error("it is served before it is asked for")
		}
	}
	client.PrependReactor("list", "jobsets", func(clienttesting.Action) (bool, runtime.Object, error) {
		list := &unstructured.UnstructuredList{}
		list.SetResourceVersion("7")
		return true, list, nil
	})
	client.PrependReactor("list", "rayclusters", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(schema.GroupResource{}, "")
	})
	factory.StartWithContext(t.Context())
	for i, profile := range profiles {
		jobSets, rays := profile[pkggang.KindJobSet][0], profile[pkggang.KindRayCluster][0]
		if !cache.WaitForCacheSync(t.Context().Done(), jobSets.Informer.HasSynced, rays.Informer.HasSynced) || !jobSets.Served() || rays.Served() {
			t.Errorf("profile %d: JobSets are served: %t, RayClusters, of which there are none: %t", i, jobSets.Served(), rays.Served())
		}
	}
}

package gangs

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// committed answers with one object, or fails.
type committed struct {
	client.Reader
	spec  map[string]any
	fails error
	asked []string
}

func (c *committed) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	c.asked = append(c.asked, object.GetObjectKind().GroupVersionKind().GroupKind().String()+" "+key.String())
	if c.fails != nil {
		return c.fails
	}
	object.(*unstructured.Unstructured).Object["spec"] = c.spec
	return nil
}

func member(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(name), Labels: labels,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: cmp.Or(labels["ray.io/cluster"], "j"), UID: "mine", Controller: ptr.To(true)}},
	}}
}

func TestTheGangOfAPod(t *testing.T) {
	group, ray := map[string]string{"scheduling.x-k8s.io/pod-group": "g"}, map[string]string{"ray.io/cluster": "r", "ray.io/node-type": "worker"}
	workers := map[string]any{"workerGroupSpecs": []any{map[string]any{"replicas": int64(3), "template": map[string]any{"spec": map[string]any{
		"containers": []any{map[string]any{"name": "ray", "resources": map[string]any{"limits": map[string]any{"nvidia.com/gpu": "8"}}}},
	}}}}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "r", errors.New("no"))
	for name, tc := range map[string]struct {
		labels  map[string]string
		spec    map[string]any
		fails   error
		least   int
		members int
		broken  bool
	}{
		"alone":                           {members: 1},
		"a PodGroup":                      {labels: group, spec: map[string]any{"minMember": int64(2)}, least: 2, members: 3},
		"a PodGroup that is not there":    {labels: group, fails: apierrors.NewNotFound(schema.GroupResource{}, "g"), members: 1},
		"a PodGroup that may not be read": {labels: group, fails: forbidden, broken: true},
		"a RayCluster":                    {labels: ray, spec: workers, least: 4, members: 3},
		"a RayCluster, and no such kind":  {labels: ray, fails: &meta.NoKindMatchError{}, members: 1},
		"a role that knows no RayCluster": {labels: ray, fails: forbidden, members: 1},
		"an API server that does not say": {labels: ray, fails: errors.New("EOF"), broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := member("a", tc.labels)
			cache := fake.NewClientBuilder().WithObjects(pod, member("b", tc.labels), member("c", tc.labels), member("d", nil)).Build()
			live := &committed{spec: tc.spec, fails: tc.fails}
			reader := &Reader{Cache: cache, Live: live}
			got, err := reader.GangOf(t.Context(), pod)
			if err != nil || tc.broken {
				if err == nil || !tc.broken {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			if got.Least != tc.least || len(got.Members) != tc.members || !slices.ContainsFunc(got.Members, func(of *corev1.Pod) bool { return of.UID == "a" }) {
				t.Errorf("got %d members of %d", len(got.Members), got.Least)
			}
			before := len(live.asked)
			if again, err := reader.GangOf(t.Context(), got.Members[len(got.Members)-1]); err != nil || again != got || len(live.asked) != before {
				t.Errorf("another member: %+v, %v, asked %v", again, err, live.asked)
			}
		})
	}
}

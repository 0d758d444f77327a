package quotaline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

const gpus = "requests.nvidia.com/gpu"

// indexer gives a fake API server the indexes of the cache.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(object, field, extract)
	return nil
}

// job makes a Job of so many pods of a GPU each, of which some are there, made some minutes ago, for a PodGroup.
func job(name, group string, minutes, parallelism, pods int, change ...func(*batchv1.Job)) (objects []client.Object) {
	made := noon.Add(-time.Hour + time.Duration(minutes)*time.Minute)
	template := fixture.Pod(name).GPUs(1).Label(g8s.LabelPodGroup, group).Obj()
	out := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(made), Labels: map[string]string{g8s.LabelJob: name}},
		Spec:       batchv1.JobSpec{Parallelism: ptr.To(int32(parallelism)), Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec}},
	}
	out.Status.StartTime = ptr.To(metav1.NewTime(made))
	for _, f := range change {
		f(out)
	}
	objects = append(objects, out)
	for i := range pods {
		pod := template.DeepCopy()
		pod.Namespace, pod.Name, pod.CreationTimestamp = "ns", fmt.Sprint(name, "-", i), metav1.NewTime(made)
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: name, UID: out.UID, Controller: ptr.To(true)}}
		objects = append(objects, pod)
	}
	return objects
}

func changed(job *batchv1.Job) { job.Generation = 2 }

func heldBehind(other string) func(*batchv1.Job) {
	return func(job *batchv1.Job) {
		job.Generation, job.Spec.Suspend, job.Annotations = 2, ptr.To(true), map[string]string{g8s.AnnotationQuotaBehind: other}
	}
}

func podGroup(name string, minMember int64, severalOwners bool) client.Object {
	group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": minMember}}}
	group.SetAPIVersion(g8s.PodGroupAPIVersion)
	group.SetKind(g8s.PodGroupKind)
	group.SetNamespace("ns")
	group.SetName(name)
	if severalOwners {
		group.SetAnnotations(map[string]string{g8s.AnnotationSeveralOwners: g8s.True})
	}
	return group
}

func bounds(hard, used int64) client.Object {
	amount := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{gpus: *resource.NewQuantity(n, resource.DecimalSI)}
	}
	return &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "q"}, Spec: corev1.ResourceQuotaSpec{Hard: amount(hard)}, Status: corev1.ResourceQuotaStatus{Used: amount(used)}}
}

// TestGangsOfOtherSizesThanTheirJobs stand in line by what their PodGroups say by now. Before, one that was to start with fewer pods than its Job
// makes came last as one that never fits; one that never starts kept its part from all others; and two gangs of two Jobs each waited for each
// other for ever.
func TestGangsOfOtherSizesThanTheirJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		objects [][]client.Object
		// want is the job that each one comes behind, "" for one whose pods are made.
		want map[string]string
	}{
		"minMember was lowered to what fits": {
			objects: [][]client.Object{{bounds(4, 0), podGroup("a", 2, false), podGroup("b", 4, false)}, job("a", "a", 0, 8, 0, heldBehind("x")), job("b", "b", 1, 4, 0, heldBehind("x"))},
			want:    map[string]string{"a": "", "b": "a"},
		},
		"minMember is what never fits": {
			objects: [][]client.Object{{bounds(4, 0), podGroup("a", 8, false), podGroup("b", 4, false)}, job("a", "a", 0, 8, 0, heldBehind("x")), job("b", "b", 1, 4, 0, heldBehind("x"))},
			want:    map[string]string{"a": "b", "b": ""},
		},
		"minMember was lowered to what is there": {
			objects: [][]client.Object{{bounds(4, 2), podGroup("a", 2, false), podGroup("b", 2, false)}, job("a", "a", 0, 4, 2), job("b", "b", 1, 2, 0, heldBehind("a"))},
			want:    map[string]string{"a": "", "b": ""},
		},
		"parallelism was lowered alone": {
			objects: [][]client.Object{{bounds(4, 4), podGroup("a", 4, false), podGroup("b", 4, false)}, job("a", "a", 0, 2, 2, changed), job("b", "b", 1, 4, 2)},
			want:    map[string]string{"a": "b", "b": ""},
		},
		"parallelism was lowered alone, and nobody waits": {
			objects: [][]client.Object{{bounds(4, 2), podGroup("a", 4, false), podGroup("c", 4, false)}, job("a", "a", 0, 2, 2, changed), job("c", "c", 1, 2, 2, changed)},
			want:    map[string]string{"a": "", "c": ""},
		},
		"parallelism was lowered with minMember": {
			objects: [][]client.Object{{bounds(4, 4), podGroup("a", 2, false), podGroup("b", 4, false)}, job("a", "a", 0, 2, 2, changed), job("b", "b", 1, 4, 2)},
			want:    map[string]string{"a": "", "b": ""},
		},
		"two gangs of two Jobs": {
			objects: [][]client.Object{{bounds(5, 5), podGroup("a", 5, true), podGroup("b", 5, true)},
				job("a0", "a", 0, 1, 1), job("a1", "a", 1, 4, 2), job("b0", "b", 2, 1, 1), job("b1", "b", 3, 4, 1)},
			want: map[string]string{"a0": "", "a1": "", "b0": "a0", "b1": "a0"},
		},
		"a gang of two Jobs that is whole, and one that waits": {
			objects: [][]client.Object{{bounds(9, 5), podGroup("a", 5, true), podGroup("b", 4, false)},
				job("a0", "a", 0, 1, 1), job("a1", "a", 1, 4, 4), job("b", "b", 2, 4, 0, heldBehind("a0"))},
			want: map[string]string{"a0": "", "a1": "", "b": ""},
		},
		"a gang of two Jobs that needs fewer than both make": {
			objects: [][]client.Object{{bounds(5, 4), podGroup("a", 4, true), podGroup("b", 4, false)},
				job("a0", "a", 0, 1, 1), job("a1", "a", 1, 4, 3), job("b", "b", 2, 4, 0, heldBehind("a0"))},
			want: map[string]string{"a0": "", "a1": "", "b": ""},
		},
		"two Jobs under one PodGroup, each a gang of its own": {
			objects: [][]client.Object{{bounds(5, 5), podGroup("a", 4, false)}, job("a0", "a", 0, 4, 3), job("a1", "a", 1, 4, 2)},
			want:    map[string]string{"a0": "", "a1": "a0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder()
			if err := index.Register(t.Context(), indexer{builder}); err != nil {
				t.Fatal(err)
			}
			for _, objects := range tc.objects {
				builder.WithObjects(objects...).WithStatusSubresource()
			}
			api := builder.Build()
			r := &Reconciler{Client: api, Live: api, Events: events.NewFakeRecorder(100), Clock: clocktesting.NewFakePassiveClock(noon)}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "ns"}}); err != nil {
				t.Fatal(err)
			}
			var list batchv1.JobList
			if err := api.List(t.Context(), &list); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for i := range list.Items {
				job := &list.Items[i]
				got[job.Name] = job.Annotations[g8s.AnnotationQuotaBehind]
				if held := ptr.Deref(job.Spec.Suspend, false); held != (got[job.Name] != "") {
					t.Errorf("%s is suspended: %t, behind %q", job.Name, held, got[job.Name])
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("behind (-want +got):\n%s", diff)
			}
		})
	}
}

package spot_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// member makes a pod of a gang, which takes a while to end.
func (w *world) member(name, node string, created time.Time) {
	w.create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(created),
			Labels: map[string]string{g8s.LabelPodGroup: "gang"}, Finalizers: []string{"example.com/ends-slowly"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "gang", UID: "gang", Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: node, SchedulerName: g8s.SchedulerName},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	})
}

func (w *world) leaves(name string) bool {
	w.Helper()
	var pod corev1.Pod
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: name}, &pod); err != nil {
		w.Fatal(err)
	}
	return pod.DeletionTimestamp != nil
}

// TestAGangLeavesAsAWhole whenever the controller is killed, and who is started anew meanwhile goes on.
func TestAGangLeavesAsAWhole(t *testing.T) {
	t.Parallel()
	for number := 8; number < 20; number++ { // the calls around those that evict
		for _, after := range []bool{false, true} {
			w := newWorld(t, 1, func(s *g8s.SpotPoolSpec) { s.Minimum, s.Maximum = 1, 1 })
			w.run(90 * time.Second)
			group := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"minMember": int64(3)}}}
			group.SetAPIVersion(g8s.PodGroupAPIVersion)
			group.SetKind(g8s.PodGroupKind)
			group.SetNamespace("default")
			group.SetName("gang")
			w.create(group)
			machine := w.staying()[0]
			w.member("here", machine.Name, w.clock.Now())
			w.member("there", "own-1", w.clock.Now())
			w.member("beyond", "own-2", w.clock.Now())
			w.cloud.Interrupt(machine.ID, 10*time.Minute)
			w.begin(&fuse{left: number, after: after})
			w.run(20 * time.Second)
			for _, name := range []string{"here", "there", "beyond"} {
				if !w.leaves(name) {
					t.Errorf("%s stays", name)
				}
			}
			w.member("anew", "own-1", time.Now().Add(time.Hour)) // the client in memory deletes by this clock
			w.run(20 * time.Second)
			if w.leaves("anew") {
				t.Error("a member that was started anew is moved again")
			}
			if t.Failed() {
				t.Fatalf("when it was killed at call %d, after it: %v", number, after)
			}
		}
	}
}

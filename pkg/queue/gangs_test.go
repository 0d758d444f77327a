package queue

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// madeBy is a waiting pod of 8 GPUs that an operator made for an object.
func madeBy(kind, name, podName string, labels map[string]string) corev1.Pod {
	return change(asks(podName, "8", 5, 0), func(p *corev1.Pod) {
		p.Labels = labels
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: kind, Name: name, UID: types.UID(name), Controller: ptr.To(true)}}
	})
}

// TestEachGangHasOneLine plays the queue on two nodes of 8 GPUs: workloads that gpuctl did not make are one entry and one estimate for each gang.
func TestEachGangHasOneLine(t *testing.T) {
	ray := map[string]string{"ray.io/cluster": "ray", "ray.io/node-type": "worker"}
	replica := func(index string) map[string]string {
		return map[string]string{"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": index}
	}
	indexed := func(podName string) corev1.Pod {
		return change(madeBy("Job", "ddp", podName, nil), func(p *corev1.Pod) {
			p.Annotations = map[string]string{batchv1.JobCompletionIndexAnnotation: "0"}
		})
	}
	atATime := batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "ddp", UID: "ddp"},
		Spec:       batchv1.JobSpec{CompletionMode: ptr.To(batchv1.IndexedCompletion), Parallelism: ptr.To[int32](3), Completions: ptr.To[int32](9)},
	}
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		jobs []batchv1.Job
		want []string
	}{
		"a RayCluster that fits": {
			pods: []corev1.Pod{madeBy("RayCluster", "ray", "ray-1", ray), madeBy("RayCluster", "ray", "ray-2", ray)},
			want: []string{"RayCluster ray: 2 pods, 16 GPUs, starts now"},
		},
		"a RayCluster that never fits": {
			pods: []corev1.Pod{madeBy("RayCluster", "ray", "ray-1", ray), madeBy("RayCluster", "ray", "ray-2", ray), madeBy("RayCluster", "ray", "ray-3", ray)},
			want: []string{"RayCluster ray: 3 pods, 24 GPUs, starts never"},
		},
		"replicas of a LeaderWorkerSet, each a gang": {
			pods: []corev1.Pod{
				madeBy("StatefulSet", "vllm", "vllm-0", replica("0")), madeBy("StatefulSet", "vllm-0", "vllm-0-1", replica("0")),
				madeBy("StatefulSet", "vllm", "vllm-1", replica("1")), madeBy("StatefulSet", "vllm-1", "vllm-1-1", replica("1")),
			},
			want: []string{"LeaderWorkerSet vllm[0]: 2 pods, 16 GPUs, starts now", "LeaderWorkerSet vllm[1]: 2 pods, 16 GPUs, starts unknown"},
		},
		"indexes that all run at a time": {
			pods: []corev1.Pod{indexed("ddp-0"), indexed("ddp-1"), indexed("ddp-2")},
			want: []string{"Job ddp: 3 pods, 24 GPUs, starts never"},
		},
		"indexes of which some run at a time": {
			pods: []corev1.Pod{indexed("ddp-0"), indexed("ddp-1"), indexed("ddp-2")}, jobs: []batchv1.Job{atATime},
			want: []string{"Job ddp: 3 pods, 24 GPUs, starts now"},
		},
		"a StatefulSet, whose pods start one by one": {
			pods: []corev1.Pod{madeBy("StatefulSet", "db", "db-0", nil), madeBy("StatefulSet", "db", "db-1", nil), madeBy("StatefulSet", "db", "db-2", nil)},
			want: []string{"StatefulSet db: 3 pods, 24 GPUs, starts now"},
		},
		"pods alone": {
			pods: []corev1.Pod{change(asks("a", "8", 5, 0), func(p *corev1.Pod) { p.Labels, p.OwnerReferences = nil, nil })},
			want: []string{" a-x: 1 pods, 8 GPUs, starts now"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects := &snapshot.Snapshot{Pods: tc.pods, Jobs: tc.jobs, Nodes: []corev1.Node{node("n1", "8"), node("n2", "8")}}
			var got []string
			for _, e := range Build(objects, nil, nil, t0).Entries {
				label := e.Name
				if e.Replica != "" {
					label += "[" + e.Replica + "]"
				}
				got = append(got, fmt.Sprintf("%s %s: %d pods, %d GPUs, starts %s", e.Kind, label, e.Pods, e.GPUs, startOf(&e)))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func startOf(e *Entry) string {
	switch {
	case e.Never:
		return "never"
	case e.ETA == nil:
		return "unknown"
	}
	return "now"
}

// TestWhatKueueHoldsBackIsShown behind all that wait in our queues: it has no pods that the scheduler could try.
func TestWhatKueueHoldsBackIsShown(t *testing.T) {
	held := inventory.Job{Name: "ddp", Namespace: "team", Kind: "Job", Pool: "train", GPUs: 16, Desired: 2, Priority: "high", Status: inventory.StatusPending,
		Trouble: inventory.Trouble{Reason: inventory.ReasonHeldByKueue, Message: "held"}}
	idle := held
	idle.GPUs = 0
	got := Build(&snapshot.Snapshot{Pods: []corev1.Pod{asks("waits", "1", 5, 0)}}, []inventory.Job{idle, held}, nil, t0).Entries
	if len(got) != 2 || got[0].Name != "waits" || got[1].Name != "ddp" || got[1].Position != 0 || got[1].Cause != reason.HeldByKueue || got[1].GPUs != 16 {
		t.Errorf("got %+v", got)
	}
}

package inventory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// owned is a pod of our scheduler that an operator made for an object, with the labels that it sets.
func owned(kind, name string, labels map[string]string, p corev1.Pod) corev1.Pod {
	p.Spec.SchedulerName, p.Labels = names.SchedulerName, labels
	if kind != "" {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: kind, Name: name, UID: "uid-of-object", Controller: ptr.To(true)}}
	}
	return p
}

// rayNode is a node of the RayCluster ray.
func rayNode(role string, p corev1.Pod) corev1.Pod {
	return owned("RayCluster", "ray", map[string]string{"ray.io/cluster": "ray", "ray.io/node-type": role}, p)
}

func withoutGPUs(p corev1.Pod) corev1.Pod {
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "ray"}}
	return p
}

func TestForeignWorkloads(t *testing.T) {
	ready := condition(corev1.PodReady, corev1.ConditionTrue, "", "")
	changed := func(p corev1.Pod, change func(*corev1.PodStatus)) corev1.Pod {
		change(&p.Status)
		return p
	}
	refused := condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "no room")
	ended := func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(epoch.Add(time.Hour))}}}}
	}
	type row struct {
		Kind, Name     string
		Status         Status
		Ready, Desired int32
		GPUs           int64
		Object         string
	}
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		jobs []batchv1.Job
		want []row
	}{
		"a RayCluster that runs, whose head asks for none": {
			pods: []corev1.Pod{
				changed(rayNode("head", withoutGPUs(pod("ray-head", "n0", "0", corev1.PodRunning))), ready),
				changed(rayNode("worker", pod("ray-worker-0", "n1", "8", corev1.PodRunning)), ready),
				changed(rayNode("worker", pod("ray-worker-1", "n2", "8", corev1.PodRunning)), ready),
			},
			want: []row{{"RayCluster", "ray", StatusRunning, 3, 3, 16, "example.com/v1/RayCluster"}},
		},
		"half a RayCluster": {
			pods: []corev1.Pod{
				changed(rayNode("worker", pod("ray-worker-0", "n1", "8", corev1.PodRunning)), ready),
				changed(rayNode("worker", pod("ray-worker-1", "", "8", corev1.PodPending)), refused),
			},
			want: []row{{"RayCluster", "ray", StatusDegraded, 1, 2, 16, "example.com/v1/RayCluster"}},
		},
		"workloads without GPUs, and of another scheduler": {
			pods: []corev1.Pod{
				rayNode("head", withoutGPUs(pod("ray-head", "n0", "0", corev1.PodRunning))),
				func() corev1.Pod {
					p := owned("StatefulSet", "db", nil, pod("db-0", "n1", "8", corev1.PodRunning))
					p.Spec.SchedulerName = corev1.DefaultSchedulerName
					return p
				}(),
			},
		},
		"a pod alone": {
			pods: []corev1.Pod{owned("", "", nil, changed(pod("probe", "", "1", corev1.PodPending), refused))},
			want: []row{{"Pod", "probe", StatusPending, 0, 1, 1, "v1/Pod"}},
		},
		"the replicas of a LeaderWorkerSet are one workload": {
			pods: []corev1.Pod{
				owned("StatefulSet", "vllm-0", map[string]string{"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "0"}, pod("vllm-0-1", "", "8", corev1.PodPending)),
				owned("StatefulSet", "vllm", map[string]string{"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "1"}, pod("vllm-1", "", "8", corev1.PodPending)),
			},
			want: []row{{"LeaderWorkerSet", "vllm", StatusPending, 0, 2, 16, "/LeaderWorkerSet"}},
		},
		"one that has succeeded": {
			pods: []corev1.Pod{owned("Workflow", "etl", nil, changed(pod("etl-1", "n1", "1", corev1.PodSucceeded), ended))},
			want: []row{{"Workflow", "etl", StatusSucceeded, 1, 1, 1, "example.com/v1/Workflow"}},
		},
		"one of whose pods one has failed": {
			pods: []corev1.Pod{
				owned("Workflow", "etl", nil, changed(pod("etl-1", "n1", "1", corev1.PodSucceeded), ended)),
				owned("Workflow", "etl", nil, changed(pod("etl-2", "n1", "1", corev1.PodFailed), ended)),
			},
			want: []row{{"Workflow", "etl", StatusFailed, 1, 2, 2, "example.com/v1/Workflow"}},
		},
		"one whose failed pod was made again": {
			pods: []corev1.Pod{
				rayNode("worker", pod("ray-worker-0", "n1", "8", corev1.PodFailed)),
				changed(rayNode("worker", pod("ray-worker-1", "n1", "8", corev1.PodRunning)), ready),
			},
			want: []row{{"RayCluster", "ray", StatusRunning, 1, 1, 8, "example.com/v1/RayCluster"}},
		},
		"one that is being deleted": {
			pods: []corev1.Pod{rayNode("worker", onDeadNode(pod("ray-worker-0", "n1", "8", corev1.PodRunning), 0))},
			want: []row{{"RayCluster", "ray", StatusTerminating, 0, 1, 8, "example.com/v1/RayCluster"}},
		},
		"a Job of Kubernetes that is suspended has no pods": {
			jobs: []batchv1.Job{nativeJob(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) })},
			want: []row{{"Job", "ddp", StatusSuspended, 0, 2, 8, "batch/v1/Job"}},
		},
		"a Job that Kueue holds back": {
			jobs: []batchv1.Job{nativeJob(func(j *batchv1.Job) {
				j.Spec.Suspend, j.Labels = ptr.To(true), map[string]string{names.LabelKueueQueue: "team-a"}
			})},
			want: []row{{"Job", "ddp", StatusPending, 0, 2, 8, "batch/v1/Job"}},
		},
		"a Job of Kueue's that a user has paused": {
			jobs: []batchv1.Job{nativeJob(func(j *batchv1.Job) {
				j.Spec.Suspend, j.Labels = ptr.To(true), map[string]string{names.LabelKueueQueue: "team-a"}
				j.Annotations = map[string]string{names.AnnotationPausedAt: "2026-11-01T12:00:00Z"}
			})},
			want: []row{{"Job", "ddp", StatusSuspended, 0, 2, 8, "batch/v1/Job"}},
		},
		"its pods are its own": {
			jobs: []batchv1.Job{nativeJob(nil)},
			pods: []corev1.Pod{
				changed(owned("Job", "ddp", nil, pod("ddp-0", "n1", "4", corev1.PodRunning)), ready),
				changed(owned("Job", "ddp", nil, pod("ddp-1", "n1", "4", corev1.PodRunning)), ready),
			},
			want: []row{{"Job", "ddp", StatusRunning, 2, 2, 8, "batch/v1/Job"}},
		},
		"a Job that a JobSet made is not one by itself": {
			jobs: []batchv1.Job{nativeJob(func(j *batchv1.Job) {
				j.OwnerReferences = []metav1.OwnerReference{{Kind: "JobSet", Name: "set", Controller: ptr.To(true)}}
			})},
		},
		"a Job of another scheduler": {
			jobs: []batchv1.Job{nativeJob(func(j *batchv1.Job) { j.Spec.Template.Spec.SchedulerName = "" })},
		},
		"a job of gpuctl of the same name": {
			jobs: []batchv1.Job{training()},
			pods: []corev1.Pod{owned("RayCluster", "sft", map[string]string{"ray.io/cluster": "sft", "ray.io/node-type": "head"}, pod("sft-head", "n1", "1", corev1.PodRunning))},
			want: []row{
				{"RayCluster", "sft", StatusRunning, 0, 1, 1, "example.com/v1/RayCluster"},
				{"training", "sft", StatusPending, 0, 1, 4, "batch/v1/Job"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got []row
			for _, job := range Build(&snapshot.Snapshot{Pods: tc.pods, Jobs: tc.jobs}).Jobs {
				if job.Foreign != (job.Kind != "training") {
					t.Errorf("%s is foreign: %t", job.Kind, job.Foreign)
				}
				got = append(got, row{job.Kind, job.Name, job.Status, job.Ready, job.Desired, job.GPUs, job.Object.APIVersion + "/" + job.Object.Kind})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// nativeJob is a Job of two indexes that gpuctl did not make.
func nativeJob(change func(*batchv1.Job)) batchv1.Job {
	job := batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "ddp", Namespace: "team", UID: "uid-of-object"},
		Spec: batchv1.JobSpec{
			CompletionMode: ptr.To(batchv1.IndexedCompletion), Parallelism: ptr.To[int32](2), Completions: ptr.To[int32](2),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: names.SchedulerName, Containers: pod("", "", "4", "").Spec.Containers}},
		},
	}
	if change != nil {
		change(&job)
	}
	return job
}

// TestEventsOfAForeignWorkload reads those of its object, though only pods name it.
func TestEventsOfAForeignWorkload(t *testing.T) {
	about := func(kind, name, uid, reason string) corev1.Event {
		return corev1.Event{Reason: reason, InvolvedObject: corev1.ObjectReference{Namespace: "team", Kind: kind, Name: name, UID: types.UID(uid)}}
	}
	leader := owned("StatefulSet", "vllm-0", map[string]string{"leaderworkerset.sigs.k8s.io/name": "vllm", "leaderworkerset.sigs.k8s.io/group-index": "0"}, pod("vllm-0-1", "", "8", corev1.PodPending))
	details := BuildDetails(&snapshot.Snapshot{Pods: []corev1.Pod{leader}, Events: []corev1.Event{
		about("LeaderWorkerSet", "vllm", "uid-lws", "GroupsProgressing"),
	}})
	if len(details) != 1 || len(details[0].Events) != 1 || details[0].Events[0].Reason != "GroupsProgressing" {
		t.Fatalf("got %+v", details)
	}
	if got := details[0].Container.Requests[names.ResourceGPU]; got != "8" {
		t.Errorf("each pod asks for %q GPUs", got)
	}
}

func TestWhatToTypeInstead(t *testing.T) {
	for kind, want := range map[string]string{
		"RayCluster": "RayCluster x was not made by gpuctl, which shows it and does not change it\n" +
			"Pause it: kubectl -n team patch raycluster/x --type=merge -p '{\"spec\":{\"suspend\":true}}'\nDelete it: kubectl -n team delete raycluster/x",
		"PyTorchJob": "PyTorchJob x was not made by gpuctl, which shows it and does not change it\n" +
			"Pause it: kubectl -n team patch pytorchjob/x --type=merge -p '{\"spec\":{\"runPolicy\":{\"suspend\":true}}}'\nDelete it: kubectl -n team delete pytorchjob/x",
		"LeaderWorkerSet": "LeaderWorkerSet x was not made by gpuctl, which shows it and does not change it\n" +
			"Scale it: kubectl -n team scale leaderworkerset/x --replicas=N\nDelete it: kubectl -n team delete leaderworkerset/x",
		"Workflow": "Workflow x was not made by gpuctl, which shows it and does not change it\nDelete it: kubectl -n team delete workflow/x",
	} {
		if got := (&ForeignError{Namespace: "team", Kind: kind, Name: "x"}).Error(); got != want {
			t.Errorf("%s: got %q, want %q", kind, got, want)
		}
	}
}

package inventory

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/golden"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func node(name string, gpus string, labels map[string]string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus), "cpu": resource.MustParse("64")},
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

func pod(name, onNode, gpus string, phase corev1.PodPhase) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", UID: types.UID(name), CreationTimestamp: metav1.NewTime(t0)},
		Spec: corev1.PodSpec{NodeName: onNode, Containers: []corev1.Container{{
			Name:      "main",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus)}},
		}}},
		Status: corev1.PodStatus{Phase: phase},
	}
}

func TestNodesAndPools(t *testing.T) {
	cordoned := node("n2", "8", map[string]string{names.LabelPool: "train", names.LabelGPUType: "A100-80G"})
	cordoned.Spec.Unschedulable = true
	lost := node("n3", "4", map[string]string{names.LabelAccelerator: "L4", names.LabelNVIDIAMemory: "23034"})
	lost.Status.Conditions = nil
	got := Build(&snapshot.Snapshot{
		Nodes: []corev1.Node{
			lost, cordoned,
			node("n1", "8", map[string]string{names.LabelPool: "train", names.LabelGPUType: "A100-80G", names.LabelMemory: "80Gi"}),
		},
		Pods: []corev1.Pod{
			pod("runs", "n1", "3", corev1.PodRunning),
			pod("starts", "n1", "1", corev1.PodPending),
			pod("over", "n1", "4", corev1.PodSucceeded),
			pod("waits", "", "8", corev1.PodPending),
			pod("broken", "n1", "-1", corev1.PodRunning),
			pod("stays", "n2", "2", corev1.PodRunning),
		},
	})
	golden.CompareJSON(t, filepath.Join("testdata", "nodes.json"), got)
}

func labels(job, kind string) map[string]string {
	return map[string]string{names.LabelJob: job, names.LabelJobType: kind, names.LabelPool: "train", names.LabelPriority: "high"}
}

func training(conditions ...batchv1.JobCondition) batchv1.Job {
	return batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "sft", Namespace: "team", UID: "uid-sft", Labels: labels("sft", "training")},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			NodeSelector: map[string]string{names.LabelGPUType: "A100-80G"},
			Containers:   pod("", "", "4", "").Spec.Containers,
		}}},
		Status: batchv1.JobStatus{Conditions: conditions},
	}
}

func cancelledJob() batchv1.Job {
	job := training(batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded"})
	job.Annotations = map[string]string{names.AnnotationCancelledAt: "2026-11-01T12:00:00Z"}
	return job
}

func incompleteJob() batchv1.Job {
	job := training()
	job.Annotations = map[string]string{names.AnnotationIncomplete: names.True}
	return job
}

func inference(replicas, ready int32) appsv1.Deployment {
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "inference-chat", Namespace: "team", UID: "uid-chat", Labels: labels("chat", "inference")},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To(replicas), Template: corev1.PodTemplateSpec{
			Spec: corev1.PodSpec{Containers: pod("", "", "1", "").Spec.Containers},
		}},
		Status: appsv1.DeploymentStatus{ReadyReplicas: ready},
	}
}

// of makes a pod one of a job's.
func of(job, kind string, p corev1.Pod, change func(*corev1.PodStatus)) corev1.Pod {
	p.Labels = labels(job, kind)
	if change != nil {
		change(&p.Status)
	}
	return p
}

// epoch is when the tests begin that tell what came first.
var epoch = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// onDeadNode is a pod that was made at a time after epoch, and that is to leave a node which does not answer.
func onDeadNode(p corev1.Pod, made time.Duration) corev1.Pod {
	p.CreationTimestamp, p.DeletionTimestamp = metav1.NewTime(epoch.Add(made)), ptr.To(metav1.NewTime(epoch.Add(time.Hour)))
	return p
}

// notReady is what Kubernetes says of pods on such a node.
func notReady(status *corev1.PodStatus) {
	status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
}

// refusedAt is the event of a pod of job sft that a quota did not let in.
func refusedAt(after time.Duration) corev1.Event {
	return corev1.Event{
		Reason: "FailedCreate", Message: `Error creating: pods "sft-x7q2p" is forbidden: exceeded quota: gpus`,
		InvolvedObject: corev1.ObjectReference{UID: "uid-sft"}, LastTimestamp: metav1.NewTime(epoch.Add(after)),
	}
}

func condition(kind corev1.PodConditionType, status corev1.ConditionStatus, reason, message string) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message})
	}
}

func container(state corev1.ContainerState) func(*corev1.PodStatus) {
	return func(s *corev1.PodStatus) {
		s.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: state}}
	}
}

// gpuQuota bounds the GPUs of the jobs' namespace.
func gpuQuota(used, hard string) corev1.ResourceQuota {
	const gpus = "requests." + names.ResourceGPU
	return corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "gpus", Namespace: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{gpus: resource.MustParse(hard)}},
		Status:     corev1.ResourceQuotaStatus{Used: corev1.ResourceList{gpus: resource.MustParse(used)}},
	}
}

func TestJobStatus(t *testing.T) {
	ready := condition(corev1.PodReady, corev1.ConditionTrue, "", "")
	unschedulable := condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "0/3 nodes are available: 3 node(s) have too few free GPUs")
	killed := container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})
	done := metav1.NewTime(t0)

	type state struct {
		Status         Status
		Reason         string
		Message        string
		Ready, Desired int32
		GPUs           int64
	}
	tests := map[string]struct {
		objects *snapshot.Snapshot
		want    state
	}{
		"no pod yet": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}},
			want:    state{StatusPending, "WaitingForControllers", "Kubernetes has not created the pods yet", 0, 1, 4},
		},
		"a quota is too small for the job": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Quotas: []corev1.ResourceQuota{gpuQuota("0", "2")}},
			want:    state{StatusPending, "QuotaExceeded", "asks 4 GPUs, the namespace may have 2 (quota gpus): it never fits", 0, 1, 4},
		},
		"a quota is in use": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Quotas: []corev1.ResourceQuota{gpuQuota("6", "8")}},
			want:    state{StatusPending, "QuotaExceeded", "asks 4 GPUs, and 6 of 8 are in use (quota gpus)", 0, 1, 4},
		},
		"a quota of another namespace": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Quotas: []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Namespace: "other"}}}},
			want:    state{StatusPending, "WaitingForControllers", "Kubernetes has not created the pods yet", 0, 1, 4},
		},
		"an event of a quota that has room by now": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Quotas: []corev1.ResourceQuota{gpuQuota("0", "8")}, Events: []corev1.Event{{
				Reason: "FailedCreate", Message: `Error creating: pods "sft-x7q2p" is forbidden: exceeded quota: gpus`, InvolvedObject: corev1.ObjectReference{UID: "uid-sft"},
			}}},
			want: state{StatusPending, "WaitingForControllers", "a quota refused the pods, and has room by now: Kubernetes tries again by itself", 0, 1, 4},
		},
		"a job whose pods are there does not ask for more": {
			objects: &snapshot.Snapshot{
				Jobs: []batchv1.Job{training()}, Quotas: []corev1.ResourceQuota{gpuQuota("4", "4")},
				Pods: []corev1.Pod{of("sft", "training", pod("sft-0", "n1", "4", corev1.PodRunning), ready)},
			},
			want: state{StatusRunning, "", "", 1, 1, 4},
		},
		"a replica that the quota does not let in": {
			objects: &snapshot.Snapshot{Deployments: []appsv1.Deployment{inference(8, 0)}, Quotas: []corev1.ResourceQuota{gpuQuota("8", "8")}},
			want:    state{StatusPending, "QuotaExceeded", "asks 1 GPU, and 8 of 8 are in use (quota gpus)", 0, 8, 8},
		},
		"pods are refused, so the event says why": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Events: []corev1.Event{{
				Reason: "FailedCreate", Message: `Error creating: pods "sft-x7q2p" is forbidden: exceeded quota: gpus`, InvolvedObject: corev1.ObjectReference{UID: "uid-sft"},
			}}},
			want: state{StatusPending, "QuotaExceeded", "exceeded quota: gpus", 0, 1, 4},
		},
		"a pod was made since, and is on a node that does not answer": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Events: []corev1.Event{refusedAt(time.Minute)}, Pods: []corev1.Pod{
				onDeadNode(of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), notReady), 2*time.Minute),
			}},
			want: state{StatusPending, "NodeLost", "node n1 does not answer, and Kubernetes waits until it is certain that the pod has ended", 0, 1, 4},
		},
		"a pod was made before, and the next one is refused": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Events: []corev1.Event{refusedAt(2 * time.Minute)}, Pods: []corev1.Pod{
				onDeadNode(of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), notReady), time.Minute),
			}},
			want: state{StatusPending, "QuotaExceeded", "exceeded quota: gpus", 0, 1, 4},
		},
		"objects of it are missing, which comes before all else": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{incompleteJob()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), ready),
			}},
			want: state{StatusDegraded, "Incomplete", "not all of its objects were created; creating it again completes it, and deleting it removes all of it", 1, 1, 4},
		},
		"the scheduler found no node": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "", "4", corev1.PodPending), unschedulable),
			}},
			want: state{StatusPending, "Busy", "3 node(s) have too few free GPUs", 0, 1, 4},
		},
		"a user has cancelled it, which Kubernetes calls a failure": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{cancelledJob()}},
			want:    state{StatusCancelled, "Cancelled", "the job was cancelled and holds no GPUs; gpuctl retry starts it over", 0, 1, 4},
		},
		"the image cannot be pulled": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "n1", "4", corev1.PodPending), container(corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such tag"},
				})),
			}},
			want: state{StatusFailing, "ImagePull", "no such tag", 0, 1, 4},
		},
		"it runs; the pod that failed before it is history": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "n1", "4", corev1.PodFailed), killed),
				of("sft", "training", pod("sft-2", "n1", "4", corev1.PodRunning), ready),
			}},
			want: state{StatusRunning, "", "", 1, 1, 4},
		},
		"a job that failed tells how its last pod ended": {
			objects: &snapshot.Snapshot{
				Jobs: []batchv1.Job{training(batchv1.JobCondition{
					Type: batchv1.JobFailed, Status: corev1.ConditionTrue, LastTransitionTime: done,
					Reason: batchv1.JobReasonBackoffLimitExceeded, Message: "Job has reached the specified backoff limit",
				})},
				Pods: []corev1.Pod{of("sft", "training", pod("sft-1", "n1", "4", corev1.PodFailed), killed)},
			},
			want: state{StatusFailed, "OOMKilled",
				"container main ended with exit code 137 (OOMKilled); Job has reached the specified backoff limit", 0, 1, 4},
		},
		"a job that succeeded is whole, though its pods are gone": {
			objects: &snapshot.Snapshot{Jobs: []batchv1.Job{training(batchv1.JobCondition{
				Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: done,
			})}},
			want: state{StatusSucceeded, "", "", 1, 1, 4},
		},
		"one replica of two runs": {
			objects: &snapshot.Snapshot{Deployments: []appsv1.Deployment{inference(2, 1)}, Pods: []corev1.Pod{
				of("chat", "inference", pod("chat-1", "n1", "1", corev1.PodRunning), ready),
				of("chat", "inference", pod("chat-2", "", "1", corev1.PodPending), unschedulable),
			}},
			want: state{StatusDegraded, "Busy", "3 node(s) have too few free GPUs", 1, 2, 2},
		},
		"a service that is scaled to zero holds no GPUs": {
			objects: &snapshot.Snapshot{Deployments: []appsv1.Deployment{inference(0, 0)}},
			want:    state{StatusSuspended, "Suspended", "the job has no replicas and holds no GPUs", 0, 0, 0},
		},
		"only pods are left": {
			objects: &snapshot.Snapshot{Pods: []corev1.Pod{of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), ready)}},
			want:    state{StatusTerminating, "Deleted", "the job is gone, its pods are still there", 1, 1, 4},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			jobs := Build(tc.objects).Jobs
			if len(jobs) != 1 {
				t.Fatalf("got %d jobs, want 1", len(jobs))
			}
			j := jobs[0]
			got := state{j.Status, j.Reason, j.Message, j.Ready, j.Desired, j.GPUs}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestJobsAreFoundByLabelAndNeverByName(t *testing.T) {
	stranger := training()
	stranger.Labels = nil
	notebook := inference(1, 0)
	notebook.Labels = labels("sft", "notebook")
	jobs := Build(&snapshot.Snapshot{
		Jobs:        []batchv1.Job{training(), stranger},
		Deployments: []appsv1.Deployment{notebook},
		Pods:        []corev1.Pod{pod("sft-abcde", "n1", "1", corev1.PodRunning)},
	}).Jobs
	var got []string
	for _, j := range jobs {
		got = append(got, j.Kind+"/"+j.Name)
	}
	if diff := cmp.Diff([]string{"notebook/sft", "training/sft"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventsOfTheWholeJobAreMerged(t *testing.T) {
	at := func(minutes int) metav1.Time { return metav1.NewTime(t0.Add(time.Duration(minutes) * time.Minute)) }
	event := func(uid, reason string, when metav1.Time) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{UID: types.UID(uid), Kind: "Thing", Name: uid},
			Reason:         reason, LastTimestamp: when,
		}
	}
	set := appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "team", UID: "set", Labels: labels("chat", "inference")}}
	details := BuildDetails(&snapshot.Snapshot{
		Deployments: []appsv1.Deployment{inference(1, 0)},
		Pods:        []corev1.Pod{of("chat", "inference", pod("chat-1", "", "1", corev1.PodPending), nil)},
		Events: []corev1.Event{
			event("chat-1", "FailedScheduling", at(3)), event("other", "Killing", at(2)),
			event("uid-chat", "ScalingReplicaSet", at(1)), event("set", "SuccessfulCreate", at(2)),
		},
		ReplicaSets: []appsv1.ReplicaSet{set},
	})
	var got []string
	for _, e := range details[0].Events {
		got = append(got, e.Reason)
	}
	if diff := cmp.Diff([]string{"ScalingReplicaSet", "SuccessfulCreate", "FailedScheduling"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

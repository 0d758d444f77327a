package inventory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// TestStatusOfDisruptedJobs looks at jobs whose pods lose their places, at each step until they run again.
func TestStatusOfDisruptedJobs(t *testing.T) {
	started := func() batchv1.Job {
		job := training()
		job.Status.StartTime = &metav1.Time{Time: t0}
		return job
	}
	deleted := func(p corev1.Pod) corev1.Pod {
		p.DeletionTimestamp = &metav1.Time{Time: t0.Add(time.Minute)}
		return p
	}
	disruptedBy := func(reason string, also ...func(*corev1.PodStatus)) func(*corev1.PodStatus) {
		return func(s *corev1.PodStatus) {
			condition(corev1.DisruptionTarget, corev1.ConditionTrue, reason, "for a test")(s)
			for _, change := range also {
				change(s)
			}
		}
	}
	ready := condition(corev1.PodReady, corev1.ConditionTrue, "", "")
	lost := condition(corev1.PodReady, corev1.ConditionFalse, "", "")
	ended := container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 143, Reason: "Error"}})
	type state struct {
		Status  Status
		Reason  string
		Message string
	}
	tests := map[string]struct {
		objects *snapshot.Snapshot
		want    state
	}{
		"it is preempted, and its pod ends": {
			&snapshot.Snapshot{Jobs: []batchv1.Job{started()}, Pods: []corev1.Pod{
				deleted(of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), disruptedBy("PreemptionByScheduler", ready))),
			}},
			state{StatusPending, "Preempted", "a job of higher priority takes its place"},
		},
		"its pod has ended, which is no failure of its own": {
			&snapshot.Snapshot{Jobs: []batchv1.Job{started()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "n1", "4", corev1.PodFailed), disruptedBy("EvictionByEvictionAPI", ended)),
			}},
			state{StatusPending, "Evicted", "it was told to leave its node"},
		},
		"Kubernetes waits before it makes the next pod": {
			&snapshot.Snapshot{Jobs: []batchv1.Job{started()}},
			state{StatusPending, "WaitingForControllers", "its pod has ended, and Kubernetes starts the next one after a while: 10 seconds at first, then twice as long each time"},
		},
		"a disruption that was called off is none": {
			&snapshot.Snapshot{Jobs: []batchv1.Job{started()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), func(s *corev1.PodStatus) {
					condition(corev1.DisruptionTarget, corev1.ConditionFalse, "PreemptionByScheduler", "")(s)
					ready(s)
				}),
			}},
			state{Status: StatusRunning},
		},
		"its node does not answer": {
			&snapshot.Snapshot{Jobs: []batchv1.Job{started()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), lost),
			}},
			state{StatusFailing, "NodeLost", "node n1 does not answer, and whether the pod still runs is not known"},
		},
		"it was told to leave a node that does not answer": {
			&snapshot.Snapshot{Jobs: []batchv1.Job{started()}, Pods: []corev1.Pod{
				deleted(of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), disruptedBy("DeletionByTaintManager", lost))),
			}},
			state{StatusPending, "NodeLost", "node n1 does not answer, and Kubernetes waits until it is certain that the pod has ended"},
		},
		"it was deleted, and its node does not answer": {
			&snapshot.Snapshot{Pods: []corev1.Pod{deleted(of("sft", "training", pod("sft-1", "n1", "4", corev1.PodRunning), lost))}},
			state{StatusTerminating, "NodeLost", "node n1 does not answer, and Kubernetes waits until it is certain that the pod has ended"},
		},
		"a probe fails, which is not the node's fault": {
			&snapshot.Snapshot{Deployments: []appsv1.Deployment{inference(1, 0)}, Pods: []corev1.Pod{
				of("chat", "inference", pod("chat-1", "n1", "1", corev1.PodRunning), condition(corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady", "it loads")),
			}},
			state{StatusStarting, "Starting", "it loads"},
		},
		"one of two replicas is on a node that does not answer": {
			&snapshot.Snapshot{Deployments: []appsv1.Deployment{inference(2, 1)}, Pods: []corev1.Pod{
				of("chat", "inference", pod("chat-1", "n1", "1", corev1.PodRunning), ready),
				of("chat", "inference", pod("chat-2", "n2", "1", corev1.PodRunning), lost),
			}},
			state{StatusDegraded, "NodeLost", "node n2 does not answer, and whether the pod still runs is not known"},
		},
		"one of two replicas ends, and the next is not there yet": {
			&snapshot.Snapshot{Deployments: []appsv1.Deployment{inference(2, 1)}, Pods: []corev1.Pod{
				of("chat", "inference", pod("chat-1", "n1", "1", corev1.PodRunning), ready),
				deleted(of("chat", "inference", pod("chat-2", "n2", "1", corev1.PodRunning), disruptedBy("PreemptionByScheduler", ready))),
			}},
			state{StatusDegraded, "Preempted", "a job of higher priority takes its place"},
		},
		"it waits for a place again": {
			&snapshot.Snapshot{Jobs: []batchv1.Job{started()}, Pods: []corev1.Pod{
				of("sft", "training", pod("sft-1", "n1", "4", corev1.PodFailed), disruptedBy("PreemptionByScheduler", ended)),
				of("sft", "training", pod("sft-2", "", "4", corev1.PodPending), condition(corev1.PodScheduled, corev1.ConditionFalse, "Unschedulable", "no room")),
			}},
			state{StatusPending, "RejectedByScheduler", "no room"},
		},
		"a job that failed tells of its failure, and not of a disruption after it": {
			&snapshot.Snapshot{
				Jobs: []batchv1.Job{training(batchv1.JobCondition{
					Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded, Message: "no retries left",
				})},
				Pods: []corev1.Pod{
					of("sft", "training", pod("sft-1", "n1", "4", corev1.PodFailed),
						container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}})),
					of("sft", "training", pod("sft-2", "n1", "4", corev1.PodFailed), disruptedBy("PreemptionByScheduler", ended)),
				},
			},
			state{StatusFailed, "Error", "container main ended with exit code 1; no retries left"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := Build(tc.objects).Jobs[0]
			if diff := cmp.Diff(tc.want, state{job.Status, job.Reason, job.Message}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheFirstFailureIsTheJobsOwn has a member of a job lose its place before another one fails.
func TestTheFirstFailureIsTheJobsOwn(t *testing.T) {
	ended := func(code int32, after time.Duration) func(*corev1.PodStatus) {
		return container(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Error", FinishedAt: metav1.NewTime(t0.Add(after)),
		}})
	}
	disrupted := of("sft", "training", pod("sft-1", "n1", "4", corev1.PodFailed), ended(143, time.Minute))
	condition(corev1.DisruptionTarget, corev1.ConditionTrue, "TerminationByKubelet", "")(&disrupted.Status)
	failed := of("sft", "training", pod("sft-2", "n1", "4", corev1.PodFailed), ended(3, time.Hour))
	job := Build(&snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Pods: []corev1.Pod{disrupted, failed}}).Jobs[0]
	if first, ok := job.FirstFailure(); !ok || first.Pod != "sft-2" || first.ExitCode != 3 {
		t.Errorf("the first failure is %+v, want that of sft-2", first)
	}
}

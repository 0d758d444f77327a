package inventory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/snapshot"
)

func TestSinceWhenAJobRunsAndHowOftenItWasStartedAgain(t *testing.T) {
	startedAfter := func(after time.Duration, restarts int32) func(*corev1.PodStatus) {
		return func(status *corev1.PodStatus) {
			status.StartTime = ptr.To(metav1.NewTime(epoch.Add(after)))
			status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", RestartCount: restarts}}
		}
	}
	first := of("sft", "training", pod("sft-a", "n1", "4", corev1.PodFailed), startedAfter(time.Minute, 0))
	second := of("sft", "training", pod("sft-b", "n1", "4", corev1.PodRunning), startedAfter(time.Hour, 0))
	waits := of("sft", "training", pod("sft-c", "", "4", corev1.PodPending), nil)
	failed := func(times int32, conditions ...batchv1.JobCondition) batchv1.Job {
		job := training(conditions...)
		job.Status.Failed = times
		return job
	}
	forGood := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded}
	gang := failed(8, forGood)
	gang.Spec.Parallelism, gang.Spec.Completions = ptr.To[int32](8), ptr.To[int32](8)
	again := *gang.DeepCopy()
	again.Status.Failed = 16
	array := sweep(batchv1.JobStatus{Failed: 5, FailedIndexes: ptr.To("1,3")})
	type want struct {
		After    *time.Duration
		Restarts int32
	}
	tests := map[string]struct {
		read snapshot.Snapshot
		want want
	}{
		"it waits": {snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Pods: []corev1.Pod{waits}}, want{}},
		"it runs for the second time, since the first": {
			snapshot.Snapshot{Jobs: []batchv1.Job{failed(1)}, Pods: []corev1.Pod{second, first}}, want{ptr.To(time.Minute), 1},
		},
		"a container of it was started again": {
			snapshot.Snapshot{Jobs: []batchv1.Job{training()}, Pods: []corev1.Pod{of("sft", "training", second, startedAfter(time.Hour, 2))}},
			want{ptr.To(time.Hour), 2},
		},
		"it has failed for good after three more times":      {snapshot.Snapshot{Jobs: []batchv1.Job{failed(4, forGood)}}, want{nil, 3}},
		"its deadline ended it before it had a pod":          {snapshot.Snapshot{Jobs: []batchv1.Job{failed(0, forGood)}}, want{}},
		"a gang without retries, of which all members ended": {snapshot.Snapshot{Jobs: []batchv1.Job{gang}}, want{}},
		"a gang that was made again once":                    {snapshot.Snapshot{Jobs: []batchv1.Job{again}}, want{nil, 8}},
		"two of five failures of tasks were for good":        {snapshot.Snapshot{Jobs: []batchv1.Job{array}}, want{nil, 3}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			job := Build(&tc.read).Jobs[0]
			got := want{Restarts: job.Restarts}
			if job.Started != nil {
				got.After = ptr.To(job.Started.Sub(epoch))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

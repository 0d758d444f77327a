package inventory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// sweep is an array of ten tasks, four at once, each with two GPUs.
func sweep(status batchv1.JobStatus) batchv1.Job {
	job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "sweep", Namespace: "team", UID: "u", Labels: map[string]string{
		names.LabelJob: "sweep", names.LabelJobType: "training",
	}}, Status: status}
	job.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	job.Spec.Completions, job.Spec.Parallelism = ptr.To[int32](10), ptr.To[int32](4)
	container := corev1.Container{Name: "main"}
	container.Resources.Limits = corev1.ResourceList{names.ResourceGPU: resource.MustParse("2")}
	job.Spec.Template.Spec.Containers = []corev1.Container{container}
	return job
}

// task is a pod of an array in a phase.
func task(name string, phase corev1.PodPhase) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", Labels: map[string]string{
		names.LabelJob: "sweep", names.LabelJobType: "training",
	}}}
	pod.Status.Phase = phase
	if phase == corev1.PodRunning {
		pod.Spec.NodeName = "n1"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	return pod
}

func TestHowFarAnArrayHasCome(t *testing.T) {
	running, waits, done, failed := corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed
	type want struct {
		Status               Status
		Ready, Desired, GPUs int64
		Progress             string
	}
	tests := map[string]struct {
		status batchv1.JobStatus
		phases []corev1.PodPhase
		want   want
	}{
		"all that may, run":               {phases: []corev1.PodPhase{running, running, running, running}, want: want{StatusRunning, 4, 4, 8, "0 of 10 done"}},
		"some wait":                       {phases: []corev1.PodPhase{running, waits, waits, waits}, want: want{StatusRunning, 1, 4, 8, "0 of 10 done, 1 run, 3 wait"}},
		"some wait, one is tried again":   {phases: []corev1.PodPhase{running, failed, waits, waits, waits}, want: want{StatusRunning, 1, 4, 8, "0 of 10 done, 1 run, 3 wait"}},
		"one has just failed":             {phases: []corev1.PodPhase{running, running, running, failed}, want: want{StatusDegraded, 3, 4, 8, "0 of 10 done, 3 run, 1 wait"}},
		"those that succeeded do not run": {status: batchv1.JobStatus{Succeeded: 3}, phases: []corev1.PodPhase{done, done, done, waits, waits, waits, waits}, want: want{StatusPending, 0, 4, 8, "3 of 10 done"}},
		"the last ones":                   {status: batchv1.JobStatus{Succeeded: 8}, phases: []corev1.PodPhase{running, running}, want: want{StatusRunning, 2, 2, 4, "8 of 10 done"}},
		"some failed":                     {status: batchv1.JobStatus{Succeeded: 4, FailedIndexes: ptr.To("1,3-5")}, phases: []corev1.PodPhase{running, running}, want: want{StatusRunning, 2, 2, 4, "4 of 10 done, 4 failed"}},
		"ended, and not yet counted":      {status: batchv1.JobStatus{Succeeded: 7}, phases: []corev1.PodPhase{done, done, done, done, done, done, done, done, done, running}, want: want{StatusRunning, 1, 1, 2, "9 of 10 done"}},
		"finished": {
			status: batchv1.JobStatus{Succeeded: 10, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}},
			phases: []corev1.PodPhase{done, done}, want: want{StatusSucceeded, 4, 4, 8, "10 of 10 done"},
		},
		"finished badly": {
			status: batchv1.JobStatus{Succeeded: 9, FailedIndexes: ptr.To("3"), Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}}},
			phases: []corev1.PodPhase{done}, want: want{StatusFailed, 0, 4, 8, "9 of 10 done, 1 failed"},
		},
		"pods of tasks that are over went": {status: batchv1.JobStatus{Succeeded: 9}, phases: []corev1.PodPhase{running}, want: want{StatusRunning, 1, 1, 2, "9 of 10 done"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := &snapshot.Snapshot{Jobs: []batchv1.Job{sweep(tc.status)}}
			for i, phase := range tc.phases {
				objects.Pods = append(objects.Pods, task(string(rune('a'+i)), phase))
			}
			job := buildJobs(objects)[0]
			got := want{job.Status, int64(job.Ready), int64(job.Desired), job.GPUs, job.Array.ProgressText().String()}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAGangIsNoArray: its members have indexes, and run all at once.
func TestAGangIsNoArray(t *testing.T) {
	gang := sweep(batchv1.JobStatus{Succeeded: 1})
	gang.Spec.Template.Labels = map[string]string{names.LabelPodGroup: "sweep"}
	if job := buildJobs(&snapshot.Snapshot{Jobs: []batchv1.Job{gang}})[0]; job.Array != nil || job.Desired != 4 {
		t.Errorf("it is %+v of %d", job.Array, job.Desired)
	}
}

func TestIndexesAreCounted(t *testing.T) {
	for text, want := range map[string]int32{"": 0, "7": 1, "1,3-5,9": 5, "0-999": 1000, "x": 0, "5-3": 0} {
		if got := countIndexes(text); got != want {
			t.Errorf("%q are %d, want %d", text, got, want)
		}
	}
}

// TestTheTimeLimitOfAnArray is that of its pods: the deadline of the Job is how an array is cancelled.
func TestTheTimeLimitOfAnArray(t *testing.T) {
	job := sweep(batchv1.JobStatus{})
	job.Spec.ActiveDeadlineSeconds, job.Spec.Template.Spec.ActiveDeadlineSeconds = ptr.To[int64](0), ptr.To[int64](90)
	if got := BuildDetails(&snapshot.Snapshot{Jobs: []batchv1.Job{job}})[0].TimeLimit; got != 90*time.Second {
		t.Errorf("it is %s, want 1m30s", got)
	}
}

// TestAQuotaTakesTheTasksOfAnArrayOneByOne: four at once ask for 8 GPUs.
func TestAQuotaTakesTheTasksOfAnArrayOneByOne(t *testing.T) {
	list := func(count string) corev1.ResourceList {
		return corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse(count)}
	}
	running := []corev1.PodPhase{corev1.PodRunning, corev1.PodRunning}
	tests := map[string]struct {
		hard, used string
		phases     []corev1.PodPhase
		refused    int32
		never      bool
	}{
		"two run, and there is no more":  {hard: "4", used: "4", phases: running, refused: 2},
		"two run, and others have freed": {hard: "6", used: "4", phases: running},
		"none runs":                      {hard: "4", used: "4", refused: 4},
		"not even one fits":              {hard: "1", used: "0", refused: 4, never: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := &snapshot.Snapshot{Jobs: []batchv1.Job{sweep(batchv1.JobStatus{})}, Quotas: []corev1.ResourceQuota{{
				ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "team"},
				Spec:       corev1.ResourceQuotaSpec{Hard: list(tc.hard)}, Status: corev1.ResourceQuotaStatus{Hard: list(tc.hard), Used: list(tc.used)},
			}}}
			for i, phase := range tc.phases {
				objects.Pods = append(objects.Pods, task(string(rune('a'+i)), phase))
			}
			job := buildJobs(objects)[0]
			if (job.Excess != nil) != (tc.refused > 0) || job.Refused != tc.refused || job.Excess != nil && job.Excess.Never != tc.never {
				t.Errorf("%d are refused: %v, want %d, never %t", job.Refused, job.Excess, tc.refused, tc.never)
			}
			before := quota.FindJobExcess(objects.Quotas, &objects.Jobs[0])
			if (before != nil && before.Never) != tc.never {
				t.Errorf("before it is created: %v", before)
			}
		})
	}
}

package diagnosis

import (
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestTasksThatTheirLimitEnded has an array of which the node ended a task, and the program another.
func TestTasksThatTheirLimitEnded(t *testing.T) {
	job := &inventory.JobDetail{TimeLimit: 90 * time.Minute, Job: inventory.Job{
		Name: "sweep", Namespace: "team", Kind: "training", Status: inventory.StatusFailed, Array: &inventory.Array{Tasks: 10, Failed: 2, FailedTasks: "1,7"},
		Trouble: inventory.Trouble{Reason: "FailedIndexes", Message: "Job has failed indexes"},
		Pods: []inventory.Pod{
			{Name: "sweep-1", Trouble: inventory.Trouble{Reason: batchv1.JobReasonDeadlineExceeded}},
			{Name: "sweep-7", Trouble: inventory.Trouble{Reason: "Error"}},
		},
	}}
	found := explainSettledJob(job).WithText()
	if !strings.Contains(found.Text, "Runs that the time limit of 90m ended: 1") || found.Steps[0].Field != reason.FieldTimeLimit {
		t.Errorf("it says %q, and first to %v", found.Text, found.Steps[0])
	}
	job.Pods = job.Pods[1:]
	if found := explainSettledJob(job).WithText(); strings.Contains(found.Text, "time limit") || found.Steps[0].Field != "" {
		t.Errorf("without such a task it says %q, and first to %v", found.Text, found.Steps[0])
	}
}

// TestAFolderThatIsNotUnpacked is a matter of the image, and not of the program.
func TestAFolderThatIsNotUnpacked(t *testing.T) {
	pod := inventory.Pod{Name: "sft-1", Containers: []inventory.ContainerState{{Name: names.ContainerUnpack, Init: true, ExitCode: ptr.To[int32](1)}}}
	job := &inventory.JobDetail{Job: inventory.Job{
		Name: "sft", Namespace: "team", Kind: "training", Status: inventory.StatusFailed, Pods: []inventory.Pod{pod},
		Trouble: inventory.Trouble{Reason: "Error", Message: "container unpack-workdir ended with exit code 1: no tar"},
	}}
	if found := explainSettledJob(job).WithText(); found.Steps[0].Field != reason.FieldImage || !strings.Contains(found.Text, "no tar") {
		t.Errorf("it says %q, and first to %v; want why, and another image", found.Text, found.Steps[0])
	}
	job.Pods[0].Containers[0].ExitCode = ptr.To[int32](0)
	if found := explainSettledJob(job).WithText(); found.Steps[0].Field == reason.FieldImage {
		t.Errorf("of a program that failed it says first to %v", found.Steps[0])
	}
}

// TestAChannelThatWasNotTold is told of last, and is no reason why the job is where it is.
func TestAChannelThatWasNotTold(t *testing.T) {
	job := inventory.JobDetail{Job: inventory.Job{Name: "sft", Namespace: "team", Kind: "training", Status: inventory.StatusRunning}}
	if report := Diagnose(Facts{Job: job}); len(report.Findings) != 0 {
		t.Fatalf("of a job that runs it says %+v", report.Findings)
	}
	job.Meta = &metav1.ObjectMeta{Annotations: map[string]string{names.AnnotationNotifyFailed: "it answered 404"}}
	report := Diagnose(Facts{Job: job})
	if len(report.Findings) != 1 || report.Findings[0].Cause != reason.NotificationFailed || !strings.Contains(report.Findings[0].Text, "it answered 404") {
		t.Errorf("it says %+v, want that nobody was told, and why", report.Findings)
	}
	if report.Cause != reason.Running {
		t.Errorf("the cause is %s, want %s", report.Cause, reason.Running)
	}
}

// TestPodsThatRunAreNotSaidToStart has an array of which a quota keeps some tasks out, and the others run.
func TestPodsThatRunAreNotSaidToStart(t *testing.T) {
	for ready, want := range map[corev1.ConditionStatus]int{corev1.ConditionTrue: 1, corev1.ConditionFalse: 2} {
		runs := on("n1", 4, "train")
		runs.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		report := Diagnose(unborn("exceeded quota", func(f *Facts) {
			f.Pods, f.Job.Desired, f.Job.Array, f.Space = []corev1.Pod{runs}, 2, &inventory.Array{Tasks: 4, AtOnce: 2}, quota("4", "4")
		}))
		if report.Cause != reason.QuotaExceeded || len(report.Findings) != want {
			t.Errorf("with a pod that is ready: %s it says %+v, want the quota, and %d findings", ready, report.Findings, want)
		}
	}
}

// TestAnArrayDoesNotWaitForItself has tasks that run beside one that waits: they are no holders to wait for, nobody stops
// them for their own job, and nothing is advised that a job of which pods run refuses.
func TestAnArrayDoesNotWaitForItself(t *testing.T) {
	own := on("n1", 6, "arr")
	waits := refused(fixture.Pod("arr-1").GPUs(6).Pool("p"), busy)
	waits.Spec.Priority, waits.Spec.PreemptionPolicy = ptr.To[int32](500), ptr.To(corev1.PreemptNever)
	high := schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: names.PriorityClassHigh}, Value: 1000}
	facts := factsOf(waits, node("n1", "p", 8), node("n2", "q", 8)).with(func(f *Facts) {
		f.Job.Name, f.Job.Desired = "arr", 2
		f.Pods = append(f.Pods, own)
		f.Cluster.Pods = []corev1.Pod{own, on("n1", 1, "other")}
		f.Space = &snapshot.Snapshot{PriorityClasses: []schedulingv1.PriorityClass{high}}
	})
	report := Diagnose(facts)
	if report.Cause != reason.Busy || !strings.Contains(report.Findings[0].Text, "other pods of this job hold 6 there") {
		t.Fatalf("it is %s: %+v", report.Cause, report.Findings)
	}
	for _, step := range report.Findings[0].Steps {
		if step.Action == reason.SetPriority || step.Action == reason.Move {
			t.Errorf("it advises %q, which a job of which pods run refuses", step.Text)
		}
		for _, holder := range step.Holders {
			if holder.Job != "other" {
				t.Errorf("it waits for %v", holder)
			}
		}
	}
	if misses := report.NearMisses; len(misses) != 1 || len(misses[0].Holders) != 1 || misses[0].Holders[0].Job != "other" {
		t.Errorf("the nearest nodes are %+v, want n1, held by job other", misses)
	}
	facts.Pods = facts.Pods[:1] // the same pods, of another job
	facts.Cluster.Pods[0].Name = "another"
	if steps := Diagnose(facts).Findings[0].Steps; !slices.ContainsFunc(steps, func(s Step) bool { return s.Action == reason.SetPriority }) ||
		!slices.ContainsFunc(steps, func(s Step) bool { return s.Action == reason.Move }) {
		t.Errorf("where nothing of the job runs the steps are %+v, want a priority and a move among them", steps)
	}
}

// TestAQuotaThatHoldsSomeTasks lets them run one after the other, and is no reason that the array never ends.
func TestAQuotaThatHoldsSomeTasks(t *testing.T) {
	for hard, never := range map[string]bool{"8": false, "2": true} {
		f := unborn("", func(f *Facts) {
			f.Job.Desired, f.Job.Array, f.Space = 10, &inventory.Array{Tasks: 100, AtOnce: 10}, quota(hard, hard)
		})
		found := f.explainExceededQuota(&f.Space.Quotas[0], "requests.nvidia.com/gpu", templatePod(&f)).WithText()
		if strings.Contains(found.Text, "never fits") != never || (found.Steps[0].Action == reason.Wait) == never {
			t.Errorf("of %s GPUs it says %q, and first to %v", hard, found.Text, found.Steps[0])
		}
	}
}

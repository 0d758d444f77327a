package replace

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// job is one that ignores disruptions, as gpuctl makes them.
func job(change ...func(*batchv1.Job)) *batchv1.Job {
	out := &batchv1.Job{Spec: batchv1.JobSpec{PodFailurePolicy: policy(rule(batchv1.PodFailurePolicyActionIgnore, corev1.DisruptionTarget))}}
	for _, c := range change {
		c(out)
	}
	return out
}

// gang is a job whose members have retries each.
func gang(remembered string) *batchv1.Job {
	return job(func(j *batchv1.Job) {
		j.Spec.BackoffLimitPerIndex = ptr.To[int32](3)
		if remembered != "" {
			j.Annotations = map[string]string{g8s.AnnotationIndexFailures: remembered}
		}
	})
}

func policy(rules ...batchv1.PodFailurePolicyRule) *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: rules}
}

func rule(action batchv1.PodFailurePolicyAction, condition corev1.PodConditionType) batchv1.PodFailurePolicyRule {
	return batchv1.PodFailurePolicyRule{Action: action, OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
		{Type: condition, Status: corev1.ConditionTrue},
	}}
}

// disrupted is a pod that has failed by a disruption.
func disrupted(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"example.com/other", batchv1.JobTrackingFinalizer}, Annotations: map[string]string{}},
		Status: corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{
			{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
		}},
	}
	for _, c := range change {
		c(out)
	}
	return out
}

// member is a pod with an index, whose member had failed so often before.
func member(index, failures int) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(index)
		p.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(failures)
	}
}

func inPhase(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}

func withCondition(kind corev1.PodConditionType, status corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: kind, Status: status})
	}
}

func TestDecide(t *testing.T) {
	none := func(p *corev1.Pod) { p.Status.Conditions = nil }
	tests := map[string]struct {
		job  *batchv1.Job
		pods []*corev1.Pod
		// release are the names of pods to let go, restore the failures that pods are to be charged.
		release  []string
		remember Failures
		restore  map[string]int32
		fails    bool
	}{
		"a disrupted pod that has failed is let go": {
			job: job(), pods: []*corev1.Pod{disrupted("a")}, release: []string{"a"},
		},
		"one that still ends is not, as it may succeed": {
			job: job(), pods: []*corev1.Pod{disrupted("a", inPhase(corev1.PodRunning))},
		},
		"one that succeeded is counted by its Job": {
			job: job(), pods: []*corev1.Pod{disrupted("a", inPhase(corev1.PodSucceeded))},
		},
		"one that failed by itself is counted, and waits": {
			job: job(), pods: []*corev1.Pod{disrupted("a", none)},
		},
		"a condition that is not true is none": {
			job: job(), pods: []*corev1.Pod{disrupted("a", none, withCondition(corev1.DisruptionTarget, corev1.ConditionFalse))},
		},
		"one that the Job controller is done with is left alone": {
			job: job(), pods: []*corev1.Pod{disrupted("a", func(p *corev1.Pod) { p.Finalizers = nil })},
		},
		"a Job that counts disruptions keeps them": {
			job: job(func(j *batchv1.Job) { j.Spec.PodFailurePolicy = nil }), pods: []*corev1.Pod{disrupted("a")},
		},
		"the first rule that holds counts": {
			job: job(func(j *batchv1.Job) {
				j.Spec.PodFailurePolicy = policy(rule(batchv1.PodFailurePolicyActionFailJob, "Doomed"),
					rule(batchv1.PodFailurePolicyActionIgnore, corev1.DisruptionTarget))
			}),
			pods: []*corev1.Pod{disrupted("a", withCondition("Doomed", corev1.ConditionTrue)), disrupted("b")}, release: []string{"b"},
		},
		"a rule on exit codes that comes first is for the Job controller": {
			job: job(func(j *batchv1.Job) {
				j.Spec.PodFailurePolicy = policy(batchv1.PodFailurePolicyRule{
					Action: batchv1.PodFailurePolicyActionFailJob, OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{},
				}, rule(batchv1.PodFailurePolicyActionIgnore, corev1.DisruptionTarget))
			}),
			pods: []*corev1.Pod{disrupted("a")},
		},
		"a Job of another controller is not ours": {
			job: job(func(j *batchv1.Job) { j.Spec.ManagedBy = ptr.To("kueue.x-k8s.io/multikueue") }), pods: []*corev1.Pod{disrupted("a")},
		},
		"a Job that has failed makes no more pods": {
			job: job(func(j *batchv1.Job) {
				j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}}
			}),
			pods: []*corev1.Pod{disrupted("a")},
		},
		"a suspended Job makes them later": {
			job:  job(func(j *batchv1.Job) { j.Spec.Suspend = ptr.To(true) }),
			pods: []*corev1.Pod{disrupted("a")}, release: []string{"a"},
		},
		"members of a gang without failures need no memory": {
			job: gang(""), pods: []*corev1.Pod{disrupted("a", member(0, 0)), disrupted("b", member(1, 0))}, release: []string{"a", "b"},
		},
		"the failures of a member are remembered": {
			job: gang(`{"4":1}`), pods: []*corev1.Pod{disrupted("a", member(7, 2))},
			release: []string{"a"}, remember: Failures{4: 1, 7: 2},
		},
		"what is remembered already is not written again": {
			job: gang(`{"7":2}`), pods: []*corev1.Pod{disrupted("a", member(7, 2))}, release: []string{"a"},
		},
		"never fewer than before": {
			job: gang(`{"7":3}`), pods: []*corev1.Pod{disrupted("a", member(7, 2))}, release: []string{"a"},
		},
		"the next pod of a member gets its failures back": {
			job:     gang(`{"7":2}`),
			pods:    []*corev1.Pod{disrupted("a", none, member(7, 0), inPhase(corev1.PodPending)), disrupted("b", none, member(8, 0), inPhase(corev1.PodRunning))},
			restore: map[string]int32{"a": 2},
		},
		"a pod with more failures than that keeps them": {
			job: gang(`{"7":2}`), pods: []*corev1.Pod{disrupted("a", none, member(7, 3), inPhase(corev1.PodRunning))},
		},
		"a pod that ends is not written to": {
			job: gang(`{"7":2}`), pods: []*corev1.Pod{disrupted("a", member(7, 0), inPhase(corev1.PodRunning),
				func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) })},
		},
		"a count that nobody can read is none, as for the Job controller": {
			job: gang(""), pods: []*corev1.Pod{disrupted("a", member(0, 0), func(p *corev1.Pod) {
				p.Annotations[batchv1.JobIndexFailureCountAnnotation] = "-5"
			})}, release: []string{"a"},
		},
		"an annotation that nobody can read keeps everything as it is": {
			job: gang(`{"7":"many"}`), pods: []*corev1.Pod{disrupted("a", member(7, 0))}, fails: true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan, err := Decide(tc.job, tc.pods)
			if (err != nil) != tc.fails {
				t.Fatalf("got error %v, want one: %t", err, tc.fails)
			}
			var released []string
			for _, pod := range plan.Release {
				released = append(released, pod.Name)
			}
			if !slices.Equal(released, tc.release) {
				t.Errorf("released %v, want %v", released, tc.release)
			}
			if diff := cmp.Diff(tc.remember, plan.Remember); diff != "" {
				t.Errorf("remembered (-want +got):\n%s", diff)
			}
			var restored map[string]int32
			for _, r := range plan.Restore {
				if restored == nil {
					restored = map[string]int32{}
				}
				restored[r.Pod.Name] = r.Failures
			}
			if diff := cmp.Diff(tc.restore, restored); diff != "" {
				t.Errorf("restored (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailuresAreReadAsTheyAreWritten(t *testing.T) {
	want := Failures{0: 1, 15: 2}
	text, err := want.encodeText()
	if err != nil {
		t.Fatal(err)
	}
	got, err := readFailures(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestPace: a place that is disrupted all the time gets five replacements at once, and then one a minute.
func TestPace(t *testing.T) {
	var p replacementLimiter
	now := time.Unix(0, 0)
	allowed := 0
	for i := range 600 { // ten minutes
		if p.allowReplacement(uid(i), memberKey{job: "a"}, now.Add(time.Duration(i)*time.Second)) {
			allowed++
		}
		if i%100 == 0 && !p.allowReplacement(uid(i), memberKey{job: "b"}, now.Add(time.Duration(i)*time.Second)) {
			t.Errorf("after %d s another job had to wait, too", i)
		}
	}
	if allowed < 5+9 || allowed > 5+10 {
		t.Errorf("%d replacements at once in ten minutes, want 5 and one a minute", allowed)
	}
	p.allowReplacement("z", memberKey{job: "z"}, now.Add(time.Hour))
	if len(p.budgets) != 1 {
		t.Errorf("%d places are remembered, want the one of the last hour", len(p.budgets))
	}
}

// TestAPodIsCountedOnce: a pod that is looked at again gets the same answer.
func TestAPodIsCountedOnce(t *testing.T) {
	var p replacementLimiter
	now := time.Unix(0, 0)
	for range 3 * burst {
		if !p.allowReplacement("a", memberKey{job: "a"}, now) {
			t.Fatal("a pod that was allowed once was not again")
		}
	}
}

func uid(i int) types.UID { return types.UID(strconv.Itoa(i)) }

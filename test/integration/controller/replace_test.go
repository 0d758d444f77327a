package controller

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// TestEveryDisruptionIsMadeGoodAtOnce disrupts a job that may not fail once, four times in each way: by Kubernetes' own
// waits the fourth would take 80 s.
func TestEveryDisruptionIsMadeGoodAtOnce(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*env, *corev1.Pod){
		"an eviction": (*env).Evict,
		"a taint that the job does not tolerate": func(e *env, pod *corev1.Pod) {
			e.Kubectl("taint", "node", pod.Spec.NodeName, "maintenance=now:NoExecute")
		},
		"the shutdown of its node": func(e *env, pod *corev1.Pod) {
			e.Report(pod, `{"phase":"Failed","reason":"Terminated","message":"Pod was terminated in response to imminent node shutdown.",
				"conditions":[{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet"},{"type":"Ready","status":"False"}],
				"containerStatuses":[{"name":"main","image":"busybox","imageID":"","ready":false,"restartCount":0,
					"state":{"terminated":{"exitCode":143,"reason":"Error","finishedAt":"`+time.Now().UTC().Format(time.RFC3339)+`"}}}]}`)
		},
	}
	for name, disrupt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			// It ends 3 s later, as one does that saves its work, and not just when the Job controller looks because it was evicted.
			pod := e.Start(clustertest.Job{Name: "sft", GPUs: 4, Pod: map[string]string{sandbox.AnnotationStopAfter: "3s"}})[0]
			for range 4 {
				disrupt(e, pod)
				pod = e.AgainSoon("sft", pod, e.Ended(pod).Ended)
			}
			if status := e.Status("sft"); status.Failed != 0 || status.Succeeded != 0 || len(status.Conditions) != 0 {
				t.Errorf("the job is %+v, want it to go on as if nothing had been", status)
			}
			e.announced("sft")
		})
	}
}

// announced waits for the event on a Job that tells of its replacement.
func (e *env) announced(name string) {
	e.Helper()
	e.Eventually("an event on "+name, func(ctx context.Context) (bool, error) {
		list, err := cluster.Client.EventsV1().Events(e.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=ReplacingDisruptedPod"})
		return err == nil && slices.ContainsFunc(list.Items, func(event eventsv1.Event) bool {
			return event.Regarding.Kind == "Job" && event.Regarding.Name == name
		}), err
	})
}

// TestAPreemptedJobRunsAgainWhenThereIsRoom takes its place away twice, for a second each time.
func TestAPreemptedJobRunsAgainWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, node := range e.Nodes[1:] {
		e.Kubectl("cordon", node)
	}
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8, Priority: "low"})[0]
	for i := range 2 {
		urgent := fmt.Sprintf("urgent-%d", i)
		winner := e.Start(clustertest.Job{Name: urgent, GPUs: 8, Priority: "high"})[0]
		e.Kubectl("delete", "job", "-n", e.Namespace, urgent)
		pod = e.AgainSoon("sft", pod, e.Ended(winner).Ended)
	}
	if status := e.Status("sft"); status.Failed != 0 {
		t.Errorf("the job has failed %d times", status.Failed)
	}
}

// TestAnEndWellIsCounted evicts a program that says 0 when it is told to end: the job is done, and not started again.
func TestAnEndWellIsCounted(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 1, Pod: map[string]string{sandbox.AnnotationStopExitCode: "0"}})[0]
	e.Evict(pod)
	e.Eventually("the job to be complete", func(context.Context) (bool, error) {
		return e.Status("sft").Succeeded == 1, nil
	})
	e.Stays("it is not started again", 3*time.Second, func() bool { return len(e.History.OfJob("sft")) == 1 })
}

// TestAFailureIsCountedAndWaits: only disruptions are made good at once.
func TestAFailureIsCountedAndWaits(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 1, Retries: 1})[0]
	e.Kubectl("annotate", "pod", "-n", e.Namespace, pod.Name, sandbox.AnnotationFailAfter+"=0s")
	fresh, took := e.Again("sft", pod, e.Ended(pod).Ended)
	if took < 5*time.Second {
		t.Errorf("a job that failed ran again after %s, want Kubernetes' 10 s", took)
	}
	if status := e.Status("sft"); status.Failed != 1 {
		t.Errorf("the job has failed %d times, want once", status.Failed)
	}
	e.Kubectl("annotate", "pod", "-n", e.Namespace, fresh.Name, sandbox.AnnotationFailAfter+"=0s")
	e.Eventually("the job to have failed", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.Status("sft").Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
		}), nil
	})
}

// TestAMemberKeepsItsFailures has a member of a gang fail, be disrupted and fail again: it has one retry, and the disruption
// in between gives it no other.
func TestAMemberKeepsItsFailures(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 3, Retries: 1})
	fail := func(pod *corev1.Pod) {
		e.Kubectl("annotate", "pod", "-n", e.Namespace, pod.Name, sandbox.AnnotationFailAfter+"=0s")
	}
	fail(members[1])
	second, _ := e.Again("pretrain", members[1], e.Ended(members[1]).Ended)
	if got := second.Annotations[batchv1.JobIndexFailureCountAnnotation]; got != "1" {
		t.Fatalf("the member has failed %q times, want once", got)
	}
	for range 2 {
		e.Evict(second)
		second = e.AgainSoon("pretrain", second, e.Ended(second).Ended)
	}
	e.Eventually("its failures to be those it had", func(context.Context) (bool, error) {
		return e.History.Of(second.UID).Pod.Annotations[batchv1.JobIndexFailureCountAnnotation] == "1", nil
	})
	fail(second)
	e.Eventually("the job to have failed", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.Status("pretrain").Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue
		}), nil
	})
}

// TestAWholeGangIsDisruptedTwice: its members have no failures, and the gang is whole again soon.
func TestAWholeGangIsDisruptedTwice(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 5})
	for range 2 {
		for _, member := range members {
			e.Evict(member)
		}
		for i, member := range members {
			members[i] = e.AgainSoon("pretrain", member, e.Ended(member).Ended)
		}
	}
	if status := e.Status("pretrain"); status.Failed != 0 {
		t.Errorf("the job has failed %d times", status.Failed)
	}
}

// TestABrokenAnnotationLosesNoRetry: what nobody can read keeps Kubernetes' own way.
func TestABrokenAnnotationLosesNoRetry(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	members := e.Start(clustertest.Job{Name: "pretrain", GPUs: 8, Nodes: 2, Retries: 1})
	e.Kubectl("annotate", "job", "-n", e.Namespace, "pretrain", names.AnnotationIndexFailures+"=many")
	e.Evict(members[1])
	if _, took := e.Again("pretrain", members[1], e.Ended(members[1]).Ended); took < 5*time.Second {
		t.Errorf("the member ran again after %s, want Kubernetes' 10 s", took)
	}
}

// TestANewLeaderGoesOn kills the controller: what was disrupted meanwhile waits as Kubernetes has it, at most, and what is
// disrupted afterwards does not.
func TestANewLeaderGoesOn(t *testing.T) { // not beside the others, who need a controller
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 4})[0]
	if err := controller.Kill(); err != nil {
		t.Fatal(err)
	}
	e.Evict(pod)
	lost := e.Ended(pod).Ended
	var err error
	if controller, err = startController(t.Context(), fmt.Sprintf("controller-%d", controllers.Add(1))); err != nil {
		t.Fatal(err)
	}
	pod, _ = e.Again("sft", pod, lost)
	e.Eventually("the new controller to lead", func(ctx context.Context) (bool, error) {
		lease, err := cluster.Client.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, sandbox.ControllerName, metav1.GetOptions{})
		return err == nil && lease.Spec.RenewTime.After(lost.Add(6*time.Second)), err
	})
	for range 2 {
		e.Evict(pod)
		pod = e.AgainSoon("sft", pod, e.Ended(pod).Ended)
	}
}

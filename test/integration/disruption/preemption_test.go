package disruption

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// TestAPreemptedJobRunsAgain fills a pool, and has a job of high priority take the place of one of the jobs. When it has
// ended there is room.
func TestAPreemptedJobRunsAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	small := []string{"a", "b", "c"}
	for _, name := range small {
		e.start(job{name: name, priority: "low", gpus: 8, pod: map[string]string{sandbox.AnnotationStopAfter: "2s"}})
	}
	began := time.Now()
	e.submit(job{name: "urgent", priority: "high", gpus: 8})
	var shown inventory.Job
	e.eventually("a job to be shown as preempted", func(context.Context) (bool, error) {
		for _, name := range small {
			if job := e.shown(name); job.Reason == "Preempted" {
				shown = job
			}
		}
		return shown.Name != "", nil
	})
	if shown.Status != inventory.StatusPending {
		t.Errorf("a job that is preempted is %s", shown.Status)
	}
	urgent := e.running("urgent", 1)[0]
	e.shows(shown.Name, inventory.StatusPending, "NoPods") // until Kubernetes makes the next one
	e.Logf("the job of high priority runs after %.1f s, of which its victim took 2 to end", e.history.of(urgent.UID).running.Sub(began).Seconds())
	if took := e.history.of(urgent.UID).running.Sub(began); took > soon+slack {
		t.Errorf("the job of high priority took %s to run", took)
	}
	name, victim := e.victim(small)
	e.disrupted(victim, "PreemptionByScheduler")
	if lost := len(small) - e.countRunning(small); lost != 1 {
		t.Errorf("%d jobs were preempted, want one", lost)
	}
	e.cancel("urgent")
	_, room := e.ended(urgent)
	e.again(name, victim, room)
	if status := e.status(name); status.Failed != 0 {
		t.Errorf("the job that was preempted has failed %d times", status.Failed)
	}
}

// victim returns the job that has lost its pod, and the pod.
func (e *env) victim(jobs []string) (string, *corev1.Pod) {
	e.Helper()
	for _, name := range jobs {
		for _, seen := range e.history.ofJob(name) {
			if !seen.ended.IsZero() {
				return name, seen.pod
			}
		}
	}
	e.Fatal("no job lost its pod")
	return "", nil
}

func (e *env) countRunning(jobs []string) int {
	count := 0
	for _, name := range jobs {
		count += len(e.history.running(name))
	}
	return count
}

// TestADefragmentedJobRunsAgain moves a job to make room for a large one, as `gpuctl advise defrag --apply` does.
func TestADefragmentedJobRunsAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.only(e.nodes[0])
	one := e.start(job{name: "one", gpus: 1})
	e.only(e.nodes[1])
	e.start(job{name: "most-of-the-second", gpus: 7})
	e.only(e.nodes[2])
	e.start(job{name: "all-of-the-third", gpus: 8})
	e.only(e.nodes[:]...)
	e.submit(job{name: "large", gpus: 8})
	var large *corev1.Pod
	e.eventually("the scheduler to look for room", func(context.Context) (bool, error) {
		for _, seen := range e.history.ofJob("large") {
			large = seen.pod
		}
		return large != nil && slices.ContainsFunc(large.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Reason == corev1.PodReasonUnschedulable
		}), nil
	})
	carrier := defrag.Carrier{Client: client, Patience: patience, Now: time.Now, Report: func(text string) { t.Log(text) }}
	began := time.Now()
	err := carrier.CarryOut(t.Context(), defrag.Proposal{Ref: refOf(large), Node: e.nodes[0], Moves: []defrag.Move{
		{Ref: refOf(one), From: e.nodes[0], To: e.nodes[1]},
	}})
	if err != nil {
		t.Fatal(err)
	}
	moved := e.again("one", one, began)
	if moved.Spec.NodeName != e.nodes[1] {
		t.Errorf("the job that moved is on %s, want %s", moved.Spec.NodeName, e.nodes[1])
	}
	if node := e.running("large", 1)[0].Spec.NodeName; node != e.nodes[0] {
		t.Errorf("the large job is on %s, want %s", node, e.nodes[0])
	}
	if status := e.status("one"); status.Failed != 0 {
		t.Errorf("the job that moved has failed %d times", status.Failed)
	}
}

func refOf(pod *corev1.Pod) defrag.Ref {
	return defrag.Ref{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
}

// only lets pods go to some nodes of the pool alone.
func (e *env) only(open ...string) {
	e.Helper()
	for _, node := range e.nodes {
		e.cordon(node, !slices.Contains(open, node))
	}
}

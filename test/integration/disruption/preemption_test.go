package disruption

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// TestAPreemptedJobRunsAgain fills a pool, and has a job of high priority take the place of one of the jobs. When it has
// ended there is room.
func TestAPreemptedJobRunsAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	small := []string{"a", "b", "c"}
	for _, name := range small {
		e.Start(clustertest.Job{Name: name, Priority: "low", GPUs: 8, Pod: map[string]string{sandbox.AnnotationStopAfter: "2s"}})
	}
	began := time.Now()
	e.Submit(clustertest.Job{Name: "urgent", Priority: "high", GPUs: 8})
	var shown inventory.Job
	e.Eventually("a job to be shown as preempted", func(context.Context) (bool, error) {
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
	urgent := e.Running("urgent", 1)[0]
	e.shows(shown.Name, inventory.StatusPending, "WaitingForControllers") // until Kubernetes makes the next one
	e.Logf("the job of high priority runs after %.1f s, of which its victim took 2 to end", e.History.Of(urgent.UID).Running.Sub(began).Seconds())
	if took := e.History.Of(urgent.UID).Running.Sub(began); took > bounds.Of(clustertest.Soon) {
		t.Errorf("the job of high priority took %s to run", took)
	}
	name, victim := e.victim(small)
	e.disrupted(victim, "PreemptionByScheduler")
	if lost := len(small) - e.countRunning(small); lost != 1 {
		t.Errorf("%d jobs were preempted, want one", lost)
	}
	e.cancel("urgent")
	room := e.Ended(urgent).Ended
	e.AgainSoon(name, victim, room)
	if status := e.Status(name); status.Failed != 0 {
		t.Errorf("the job that was preempted has failed %d times", status.Failed)
	}
}

// victim returns the job that has lost its pod, and the pod.
func (e *env) victim(jobs []string) (string, *corev1.Pod) {
	e.Helper()
	for _, name := range jobs {
		for _, seen := range e.History.OfJob(name) {
			if !seen.Ended.IsZero() {
				return name, seen.Pod
			}
		}
	}
	e.Fatal("no job lost its pod")
	return "", nil
}

func (e *env) countRunning(jobs []string) int {
	count := 0
	for _, name := range jobs {
		count += len(e.History.Running(name))
	}
	return count
}

// TestADefragmentedJobRunsAgain moves a job to make room for a large one, as `gpuctl advise defrag --apply` does.
func TestADefragmentedJobRunsAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.only(e.Nodes[0])
	one := e.Start(clustertest.Job{Name: "one", GPUs: 1})[0]
	e.only(e.Nodes[1])
	e.Start(clustertest.Job{Name: "most-of-the-second", GPUs: 7})
	e.only(e.Nodes[2])
	e.Start(clustertest.Job{Name: "all-of-the-third", GPUs: 8})
	e.only(e.Nodes...)
	e.Submit(clustertest.Job{Name: "large", GPUs: 8})
	var large *corev1.Pod
	e.Eventually("the scheduler to look for room", func(context.Context) (bool, error) {
		for _, seen := range e.History.OfJob("large") {
			large = seen.Pod
		}
		return large != nil && slices.ContainsFunc(large.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Reason == corev1.PodReasonUnschedulable
		}), nil
	})
	carrier := defrag.Carrier{Client: cluster.Client, StepTimeout: clustertest.Patience, Now: time.Now, Report: func(text phrase.Text) { t.Log(text) }}
	began := time.Now()
	err := carrier.CarryOut(t.Context(), defrag.Proposal{Ref: refOf(large), Node: e.Nodes[0], Moves: []defrag.Move{
		{Ref: refOf(one), From: e.Nodes[0], To: e.Nodes[1]},
	}})
	if err != nil {
		t.Fatal(err)
	}
	moved := e.AgainSoon("one", one, began)
	if moved.Spec.NodeName != e.Nodes[1] {
		t.Errorf("the job that moved is on %s, want %s", moved.Spec.NodeName, e.Nodes[1])
	}
	if node := e.Running("large", 1)[0].Spec.NodeName; node != e.Nodes[0] {
		t.Errorf("the large job is on %s, want %s", node, e.Nodes[0])
	}
	if status := e.Status("one"); status.Failed != 0 {
		t.Errorf("the job that moved has failed %d times", status.Failed)
	}
}

func refOf(pod *corev1.Pod) defrag.Ref {
	return defrag.Ref{Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID}
}

// only lets pods go to some nodes of the pool alone.
func (e *env) only(open ...string) {
	e.Helper()
	for _, node := range e.Nodes {
		e.cordon(node, !slices.Contains(open, node))
	}
}

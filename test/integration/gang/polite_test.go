package gang

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/notice"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// polite fills both nodes with jobs of low priority, of which the first asks for time to save its work. It returns their pods.
func (e *env) polite(first string) (asks, other *corev1.Pod) {
	e.Helper()
	asks = e.Start(clustertest.Job{Name: "asks", Priority: "low", GPUs: 8, Pod: map[string]string{names.AnnotationCheckpointGrace: first}})[0]
	return asks, e.Start(clustertest.Job{Name: "other", Priority: "low", GPUs: 8})[0]
}

// told is what a pod was told, false for nothing.
func (e *env) told(pod *corev1.Pod) (notice.Notice, bool) {
	e.Helper()
	there, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(e.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		return notice.Notice{}, false // it is gone
	}
	return notice.FromPod(there)
}

// noticed waits until pods were told to leave, and returns what the first was told.
func (e *env) noticed(pods ...*corev1.Pod) (first notice.Notice) {
	e.Helper()
	e.Eventually("pods to be told to leave", func(context.Context) (bool, error) {
		return e.countNoticed(pods) == len(pods), nil
	})
	first, _ = e.told(pods[0])
	return first
}

// same says which of some pods are there still, and not leaving.
func (e *env) same(pods ...*corev1.Pod) (there []string) {
	e.Helper()
	for _, pod := range pods {
		now, err := cluster.Client.CoreV1().Pods(e.Namespace).Get(e.Context(), pod.Name, metav1.GetOptions{})
		if err == nil && now.UID == pod.UID && now.DeletionTimestamp == nil {
			there = append(there, pod.Name)
		}
	}
	return there
}

// nextLeader kills the scheduler, and has another one lead, which has decided upon a pod.
func (e *env) nextLeader() {
	e.Helper()
	if err := cluster.Scheduler.Kill(); err != nil {
		e.Fatal(err)
	}
	next, err := cluster.StartScheduler(e.Context(), sandbox.SchedulerOptions{Name: fmt.Sprint("gpu-scheduler-", time.Now().UnixNano())})
	if err != nil {
		e.Fatal(err)
	}
	cluster.Scheduler = next
	e.Start(clustertest.Job{Name: "elsewhere", Pool: rackedPool, GPUs: 1})
}

// TestANoticeOutlivesTheLeader that told it: the next one neither evicts those that have time nor tells them anew, and the gang starts
// when the one that asked has answered. Nobody else has left.
func TestANoticeOutlivesTheLeader(t *testing.T) {
	e := newEnv(t)
	asks, other := e.polite("5m")
	e.Submit(clustertest.Job{Name: "urgent", Priority: "high", GPUs: 8, Nodes: 2})
	before := e.noticed(asks, other)
	if before.For.Group == "" || before.Until.Sub(before.At) < 5*time.Minute || !before.Awaited {
		t.Errorf("it is told %+v", before)
	}
	e.nextLeader()
	e.waitsPolitely("urgent")
	if after := e.noticed(asks, other); after != before {
		t.Errorf("it is told %+v by the next leader, and was told %+v", after, before)
	}
	if there := e.same(asks, other); len(there) != 2 {
		t.Errorf("%v alone are there before one has answered", there)
	}
	e.says("asks", reason.EvictionNotified, "is to leave by")
	e.says("urgent", reason.Preempting, "there is room for it by "+before.Until.Format(time.RFC3339))
	e.annotate(asks, names.AnnotationCheckpointedAt, time.Now().UTC().Format(time.RFC3339))
	e.Running("urgent", 2)
	left := map[types.UID]bool{}
	for _, job := range []string{"asks", "other"} {
		for _, seen := range e.History.OfJob(job) {
			left[seen.Pod.UID] = left[seen.Pod.UID] || !seen.Ended.IsZero()
		}
	}
	if !left[asks.UID] || !left[other.UID] {
		t.Errorf("%v have left", left)
	}
}

// says holds what gpuctl why says of a job.
func (e *env) says(job string, cause reason.Cause, says string) {
	e.Helper()
	facts, err := diagnosis.Read(e.Context(), cluster.Client, e.Namespace, job, time.Now())
	if err != nil || len(facts) != 1 {
		e.Fatalf("%d jobs are called %s: %v", len(facts), job, err)
	}
	if report := diagnosis.Diagnose(facts[0]); report.Cause != cause || !strings.Contains(report.Findings[0].Text, says) {
		e.Errorf("of job %s it is said %s: %+v", job, report.Cause, report.Findings)
	}
}

// waitsPolitely waits until the scheduler tells a job that others leave for it.
func (e *env) waitsPolitely(job string) {
	e.Helper()
	e.Eventually("job "+job+" to be told until when others leave", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.members(job), func(pod corev1.Pod) bool {
			return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodScheduled && len(reason.FindIn(c.Message, []*reason.Reason{reason.EvictionPending})) > 0
			})
		}), nil
	})
}

// TestANoticeIsWithdrawn when nobody waits for the place any more: of a gang, and of a job on one node, whose victims
// kube-scheduler's own preemption chooses.
func TestANoticeIsWithdrawn(t *testing.T) {
	for _, nodes := range []int{2, 1} {
		t.Run(fmt.Sprint("nodes=", nodes), func(t *testing.T) {
			e := newEnv(t)
			asks, other := e.polite("5m")
			e.annotate(other, names.AnnotationCheckpointGrace, "5m")
			e.Submit(clustertest.Job{Name: "urgent", Priority: "high", GPUs: 8, Nodes: nodes})
			told := []*corev1.Pod{asks, other}
			e.Eventually("pods to be told to leave", func(context.Context) (bool, error) { return e.countNoticed(told) == nodes, nil })
			background := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
			job := e.members("urgent")[0].OwnerReferences[0].Name
			if err := cluster.Client.BatchV1().Jobs(e.Namespace).Delete(t.Context(), job, background); err != nil {
				t.Fatal(err)
			}
			e.Eventually("pods to be told that they may stay", func(context.Context) (bool, error) { return e.countNoticed(told) == 0, nil })
			if there := e.same(told...); len(there) != 2 {
				t.Errorf("%v alone are there", there)
			}
		})
	}
}

// countNoticed is how many of some pods are to leave.
func (e *env) countNoticed(pods []*corev1.Pod) (count int) {
	e.Helper()
	for _, pod := range pods {
		if _, ok := e.told(pod); ok {
			count++
		}
	}
	return count
}

// TestATimeThatIsOverEndsTheWait of one that never answers: for a gang, and for a job on one node.
func TestATimeThatIsOverEndsTheWait(t *testing.T) {
	bounds.SkipInShort(t)
	for _, nodes := range []int{2, 1} {
		t.Run(fmt.Sprint("nodes=", nodes), func(t *testing.T) {
			e := newEnv(t)
			asks := e.Start(clustertest.Job{Name: "asks", Priority: "low", GPUs: 8, Pod: map[string]string{names.AnnotationCheckpointGrace: "10s"}})[0]
			other := e.Start(clustertest.Job{Name: "other", Priority: "low", GPUs: 8, Pod: map[string]string{names.AnnotationCheckpointGrace: "10s"}})[0]
			e.Submit(clustertest.Job{Name: "urgent", Priority: "high", GPUs: 8, Nodes: nodes})
			var until time.Time
			e.Eventually("pods to be told to leave", func(context.Context) (bool, error) {
				for _, pod := range []*corev1.Pod{asks, other} {
					if told, ok := e.told(pod); ok {
						until = told.Until
					}
				}
				return !until.IsZero(), nil
			})
			e.Running("urgent", nodes)
			if now := time.Now(); now.Before(until) {
				t.Errorf("the job runs at %s, and its victims had time until %s", now, until)
			}
			if there := e.same(asks, other); len(there) != 2-nodes {
				t.Errorf("%v are there still, want %d", there, 2-nodes)
			}
		})
	}
}

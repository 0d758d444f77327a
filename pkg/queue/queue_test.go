package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

var t0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// asks returns a waiting pod of a job in pool train.
func asks(job string, gpus string, priority int32, waited time.Duration) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: job + "-x", Namespace: "team", CreationTimestamp: metav1.NewTime(t0.Add(-waited)),
			Labels:          map[string]string{names.LabelJob: job, names.LabelJobType: "training"},
			OwnerReferences: []metav1.OwnerReference{{UID: types.UID(job), Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: names.SchedulerName, Priority: &priority, NodeSelector: map[string]string{names.LabelPool: "train"},
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus)},
				Limits:   corev1.ResourceList{names.ResourceGPU: resource.MustParse(gpus)},
			}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func change(pod corev1.Pod, f func(*corev1.Pod)) corev1.Pod {
	f(&pod)
	return pod
}

func on(node string, pod corev1.Pod) corev1.Pod {
	pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
	return pod
}

func node(name, gpus string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{names.LabelPool: "train", names.LabelGPUType: "A100"}},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{
				names.ResourceGPU: resource.MustParse(gpus), corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceMemory: resource.MustParse("1Ti"),
			},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// limited returns a Job that began at t0 and may run for some time.
func limited(job string, length time.Duration) batchv1.Job {
	return batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(job)},
		Spec:       batchv1.JobSpec{ActiveDeadlineSeconds: ptr.To(int64(length.Seconds()))},
		Status:     batchv1.JobStatus{StartTime: &metav1.Time{Time: t0}},
	}
}

// member is a pod of a gang.
func member(job, gpus string) corev1.Pod {
	return change(asks(job, gpus, 5, 0), func(p *corev1.Pod) { p.Labels[names.LabelPodGroup] = job })
}

// task is a pod that may run for half an hour, as those of an array with a time limit.
func task(pod corev1.Pod) corev1.Pod {
	return change(pod, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = ptr.To[int64](1800) })
}

func named(name string, pod corev1.Pod) corev1.Pod {
	return change(pod, func(p *corev1.Pod) { p.Name = name })
}

// began is a pod that its node took some time after t0.
func began(after time.Duration, pod corev1.Pod) corev1.Pod {
	return change(pod, func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: t0.Add(after)} })
}

func TestOrder(t *testing.T) {
	other := change(asks("other", "2", 9, time.Hour), func(p *corev1.Pod) { p.Spec.NodeSelector[names.LabelPool] = "infer" })
	queue := Build(&snapshot.Snapshot{Pods: []corev1.Pod{
		asks("new", "1", 5, time.Minute), asks("old", "2", 5, time.Hour), asks("urgent", "4", 9, time.Second),
		asks("old", "2", 5, 2*time.Minute), // the second pod of a job stands with the first
		other,
		change(asks("b-first-by-name", "1", 1, 0), func(p *corev1.Pod) { p.Labels = nil }),
		change(asks("c-then-this", "1", 1, 0), func(p *corev1.Pod) { p.Labels = nil }),
		on("n1", asks("runs", "8", 9, time.Hour)),
		change(asks("gated", "1", 9, 0), func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}} }),
		change(asks("stock", "1", 9, 0), func(p *corev1.Pod) { p.Spec.SchedulerName = "default-scheduler" }),
		change(asks("cpu-only", "0", 9, 0), func(p *corev1.Pod) { p.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }),
		change(asks("broken", "-1", 9, 0), func(*corev1.Pod) {}),
	}}, nil, nil, t0)
	var got []string
	for _, e := range queue.Entries {
		got = append(got, fmt.Sprintf("%s %d. %s: %d pods, %d GPUs, behind %d jobs with %d GPUs, waited %s",
			e.Pool, e.Position, e.Name, e.Pods, e.GPUs, e.JobsAhead, e.GPUsAhead, t0.Sub(e.Since)))
	}
	want := []string{
		"infer 1. other: 1 pods, 2 GPUs, behind 0 jobs with 0 GPUs, waited 1h0m0s",
		"train 1. urgent: 1 pods, 4 GPUs, behind 0 jobs with 0 GPUs, waited 1s",
		"train 2. old: 2 pods, 4 GPUs, behind 1 jobs with 4 GPUs, waited 1h0m0s",
		"train 3. new: 1 pods, 1 GPUs, behind 2 jobs with 8 GPUs, waited 1m0s",
		"train 4. b-first-by-name-x: 1 pods, 1 GPUs, behind 3 jobs with 9 GPUs, waited 0s",
		"train 5. c-then-this-x: 1 pods, 1 GPUs, behind 4 jobs with 10 GPUs, waited 0s",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEstimates(t *testing.T) {
	tests := map[string]struct {
		objects *snapshot.Snapshot
		// want is the minutes until each entry starts, -1 if that is unknown.
		want []int
	}{
		"there is room": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{asks("a", "8", 5, 0)}}, []int{0},
		},
		"the job that is in the way has a limit": {
			&snapshot.Snapshot{
				Nodes: []corev1.Node{node("n1", "8")}, Jobs: []batchv1.Job{limited("runs", time.Hour)},
				Pods: []corev1.Pod{on("n1", asks("runs", "4", 5, 0)), asks("a", "8", 5, 0)},
			}, []int{60},
		},
		"the job that is in the way has none": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{on("n1", asks("runs", "4", 5, 0)), asks("a", "8", 5, 0)}}, []int{-1},
		},
		"free GPUs on two nodes are no room for one pod": {
			&snapshot.Snapshot{
				Nodes: []corev1.Node{node("n1", "8"), node("n2", "8")},
				Pods:  []corev1.Pod{on("n1", asks("r", "4", 5, 0)), on("n2", asks("s", "4", 5, 0)), asks("a", "8", 5, 0)},
			}, []int{-1},
		},
		"one after the other, as the limits end": {
			&snapshot.Snapshot{
				Nodes: []corev1.Node{node("n1", "8")}, Jobs: []batchv1.Job{limited("runs", time.Hour), limited("a", 2*time.Hour)},
				Pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), asks("a", "8", 5, time.Minute), asks("b", "8", 5, 0)},
			}, []int{60, 120},
		},
		"behind one of which nothing is known nothing is known": {
			&snapshot.Snapshot{
				Nodes: []corev1.Node{node("n1", "8"), node("n2", "1")},
				Pods:  []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), asks("a", "8", 5, time.Minute), asks("b", "1", 5, 0)},
			}, []int{-1, -1},
		},
		"one that no node could ever take holds nobody up": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{asks("a", "9", 5, time.Minute), asks("b", "8", 5, 0)}}, []int{-1, 0},
		},
		"a job whose own limit ends in the line never starts": {
			&snapshot.Snapshot{
				Nodes: []corev1.Node{node("n1", "8")}, Jobs: []batchv1.Job{limited("runs", time.Hour), limited("a", time.Minute)},
				Pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), asks("a", "8", 5, time.Minute), asks("b", "8", 5, 0)},
			}, []int{-1, 60},
		},
		"another type is no room": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{change(asks("a", "8", 5, 0), func(p *corev1.Pod) {
				p.Spec.NodeSelector[names.LabelGPUType] = "H100"
			})}}, []int{-1},
		},
		"all pods of a gang or none": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{member("a", "8"), member("a", "8")}}, []int{-1},
		},
		"pods that are no gang start one by one, and behind them nothing is known": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{asks("a", "8", 5, time.Minute), asks("a", "8", 5, time.Minute), asks("b", "8", 5, 0)}},
			[]int{0, -1},
		},
		"behind an array it is known when each of its tasks has a limit": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{
				task(named("a-0", asks("a", "4", 5, time.Minute))), task(named("a-1", asks("a", "4", 5, time.Minute))),
				task(named("a-2", asks("a", "4", 5, time.Minute))), asks("b", "8", 5, 0),
			}},
			[]int{0, 60},
		},
		"a task that runs gives back its GPUs at its own limit": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{
				on("n1", began(-15*time.Minute, task(named("a-0", asks("a", "8", 5, time.Hour))))), task(asks("a", "8", 5, time.Minute)), asks("b", "8", 5, 0),
			}},
			[]int{15, 45},
		},
		"the next task of an array of higher priority is before all that wait": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{on("n1", began(0, task(asks("a", "8", 9, 0)))), asks("b", "8", 5, 0)}},
			[]int{-1},
		},
		"a node that has not taken a task does not count its time": {
			&snapshot.Snapshot{Nodes: []corev1.Node{node("n1", "8")}, Pods: []corev1.Pod{on("n1", task(asks("a", "8", 5, 0))), asks("b", "8", 5, 0)}},
			[]int{-1},
		},
		"a cordoned node is no room": {
			&snapshot.Snapshot{Nodes: []corev1.Node{func() corev1.Node { n := node("n1", "8"); n.Spec.Unschedulable = true; return n }()}, Pods: []corev1.Pod{asks("a", "1", 5, 0)}},
			[]int{-1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []int
			for _, e := range Build(tc.objects, nil, nil, t0).Entries {
				minutes := -1
				if e.ETA != nil {
					minutes = int(e.ETA.Sub(t0).Minutes())
				}
				got = append(got, minutes)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNever(t *testing.T) {
	nodes := []corev1.Node{node("n1", "8"), node("n2", "8")}
	nodes[1].Spec.Unschedulable = true
	memory := change(asks("a", "1", 5, 0), func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("9Ti")
	})
	gang := func(members int, gpus string) []corev1.Pod {
		var out []corev1.Pod
		for i := range members {
			out = append(out, change(asks("a", gpus, 5, 0), func(p *corev1.Pod) {
				p.Name = fmt.Sprint("a-", i)
				p.Labels[names.LabelPodGroup] = "a"
			}))
		}
		return out
	}
	tests := map[string]struct {
		pods []corev1.Pod
		want bool
	}{
		"GPUs that others hold come free":     {pods: []corev1.Pod{on("n1", asks("runs", "8", 5, 0)), asks("a", "8", 5, 0)}},
		"no node has so many GPUs":            {pods: []corev1.Pod{asks("a", "9", 5, 0)}, want: true},
		"no node has so much memory":          {pods: []corev1.Pod{memory}, want: true},
		"a gang that the nodes hold if empty": {pods: gang(4, "4")},
		"a gang with a member too many":       {pods: gang(3, "8"), want: true},
		"replicas need not all run":           {pods: []corev1.Pod{asks("a", "8", 5, 0), asks("a", "8", 5, 0), asks("a", "8", 5, 0)}},
		"a pool without nodes has none to wait for": {pods: []corev1.Pod{change(asks("a", "1", 5, 0), func(p *corev1.Pod) {
			p.Spec.NodeSelector[names.LabelPool] = "nowhere"
		})}, want: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			entry := Build(&snapshot.Snapshot{Nodes: nodes, Pods: tc.pods}, nil, nil, t0).Entries[0]
			if entry.Never != tc.want || tc.want && entry.ETA != nil {
				t.Errorf("never is %t and the start %v, want never %t", entry.Never, entry.ETA, tc.want)
			}
		})
	}
	if Build(&snapshot.Snapshot{Pods: tests["no node has so many GPUs"].pods}, nil, nil, t0).Entries[0].Never {
		t.Error("never is said without the right to read nodes")
	}
}

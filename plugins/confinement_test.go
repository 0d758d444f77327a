package plugins_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedulernames "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/plugins/gpufilter"
	"g8s.host/gpu-scheduler/plugins/gpuquota"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/upstream"
)

// TestReach has an event on a node go to the pods that could go there, and to those that something else than nodes keeps waiting. Those that
// hear of a pod that leaves are tried again, as NodeResourcesFit has them whatever node it is.
func TestReach(t *testing.T) {
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := fixture.Node("n").Pool("a").GPUs(4, "T4").Obj()
		change(n)
		return n
	}
	same := func(*corev1.Node) {}
	gone := fixture.Pod("gone").GPUs(1).Obj()
	gone.Spec.NodeName = "n"
	left := func(q queueOf) { q.move(framework.EventAssignedPodDelete, gone, nil) }
	fit := schedulernames.NodeResourcesFit
	tests := map[string]struct {
		pod  *corev1.Pod
		by   []string
		tell func(queueOf)
		want bool
	}{
		"a pod leaves the node":                 {fixture.Pod("w").Pool("a").GPUs(4).Obj(), []string{fit, gpufilter.Name}, left, true},
		"a pod leaves a node of another pool":   {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{fit}, left, false},
		"a pod leaves a node with too few GPUs": {fixture.Pod("w").Pool("a").GPUs(5).Obj(), []string{fit}, left, false},
		"a pod leaves a node of another pool after a change of this one": {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{fit}, func(q queueOf) {
			before := q.scheduler.SchedulingQueue.UnschedulablePods()[0]
			after := before.DeepCopy()
			after.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
			q.scheduler.SchedulingQueue.Update(context.Background(), before, after)
			left(q)
		}, false},
		"all are tried again": {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{fit}, func(q queueOf) {
			q.move(framework.EventUnschedulableTimeout, nil, nil)
		}, true},
		"a pod without a pool":                       {fixture.Pod("w").GPUs(4).Obj(), []string{fit}, left, true},
		"a pod that something else has rejected too": {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{fit, gpuquota.Name}, left, true},
		"a pod leaves a node that is not known": {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{fit}, func(q queueOf) {
			other := gone.DeepCopy()
			other.Spec.NodeName = "other"
			q.move(framework.EventAssignedPodDelete, other, nil)
		}, true},
		"a pod leaves the node that it was nominated to": {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{fit}, func(q queueOf) {
			nominated := gone.DeepCopy()
			nominated.Spec.NodeName, nominated.Status.NominatedNodeName = "", "n"
			q.move(framework.EventAssignedPodDelete, nominated, nil)
		}, false},
		"a pod leaves a node, and its nomination to another": {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{fit}, func(q queueOf) {
			both := gone.DeepCopy()
			both.Status.NominatedNodeName = "other"
			q.move(framework.EventAssignedPodDelete, both, nil)
		}, true},
		"a node gets more GPUs than it had": {fixture.Pod("w").Pool("a").GPUs(5).Obj(), []string{fit}, func(q queueOf) {
			q.move(fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeAllocatable}, node(same), node(func(n *corev1.Node) {
				n.Status.Allocatable[names.ResourceGPU] = resource.MustParse("8")
			}))
		}, true},
		"a node comes into the pool": {fixture.Pod("w").Pool("b").GPUs(4).Obj(), []string{schedulernames.NodeAffinity}, func(q queueOf) {
			q.move(fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.UpdateNodeLabel}, node(same), node(func(n *corev1.Node) {
				n.Labels[names.LabelPool] = "b"
			}))
		}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, node(same))
			plugins.Wrap(c.scheduler, plugins.Options{})
			test.pod.Spec.SchedulerName = names.SchedulerName
			upstream.Add(c.scheduler.SchedulingQueue, test.pod)
			upstream.TurnAway(t, c.scheduler.SchedulingQueue, 1, test.by...)
			test.tell(queueOf{c})
			if got := len(c.scheduler.SchedulingQueue.UnschedulablePods()) == 0; got != test.want {
				t.Errorf("tried again: %t, want %t", got, test.want)
			}
		})
	}
}

// queueOf is the queue of a cluster.
type queueOf struct{ *cluster }

// move tells the queue of an event, as kube-scheduler does.
func (q queueOf) move(event fwk.ClusterEvent, before, after any) {
	q.scheduler.SchedulingQueue.MoveAllToActiveOrBackoffQueue(klog.Background(), event, before, after, nil)
}

// TestArrivalsReach has a pod that arrives on a node be news to confined pods only where it leaves another node that it was nominated to.
// That holds as long as no other plugin that judges nodes registers for arrivals.
func TestArrivalsReach(t *testing.T) {
	c := newCluster(t, fixture.Node("n").Pool("a").GPUs(4, "T4").Obj())
	for _, profile := range c.scheduler.Profiles {
		for _, plugin := range profile.EnqueueExtensions() {
			events, err := plugin.EventsToRegister(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, event := range events {
				if framework.MatchClusterEvents(event.Event, framework.EventAssignedPodAdd) && plugins.JudgesNodes(plugin.Name()) && plugin.Name() != gpufilter.Name {
					t.Errorf("%s registers for %s: confined.nodeLeft must know what it frees", plugin.Name(), event.Event.Label())
				}
			}
		}
	}
}

// BenchmarkReach measures how long it takes to tell 20,000 waiting pods that one has left a node to which they cannot go, or has come to one:
// those that plugins of nodes alone have rejected, and those of which the plugins are asked, as another one has rejected them too.
func BenchmarkReach(b *testing.B) {
	pod := fixture.Pod("other").GPUs(1).Obj()
	pod.Spec.NodeName = "n"
	left := func(q queueOf) { q.move(framework.EventAssignedPodDelete, pod, nil) }
	came := func(q queueOf) { q.move(framework.EventAssignedPodAdd, nil, pod) }
	b.Run("left/confined", func(b *testing.B) { benchmarkReach(b, left, gpufilter.Name, schedulernames.NodeAffinity) })
	b.Run("left/asked", func(b *testing.B) {
		benchmarkReach(b, left, gpufilter.Name, schedulernames.NodeAffinity, gpuscore.Name)
	})
	b.Run("came/confined", func(b *testing.B) { benchmarkReach(b, came, gpufilter.Name, schedulernames.NodeAffinity) })
	b.Run("came/asked", func(b *testing.B) {
		benchmarkReach(b, came, gpufilter.Name, schedulernames.NodeAffinity, gpuscore.Name)
	})
}

func benchmarkReach(b *testing.B, tell func(queueOf), rejectors ...string) {
	c := newCluster(b, fixture.Node("n").Pool("a").GPUs(1, "T4").Obj())
	plugins.Wrap(c.scheduler, plugins.Options{})
	const waiting = 20_000
	for i := range waiting {
		pod := fixture.Pod(fmt.Sprint("w", i)).Pool("a").GPUs(2).Obj()
		pod.Spec.SchedulerName, pod.UID = names.SchedulerName, types.UID(pod.Name)
		upstream.Add(c.scheduler.SchedulingQueue, pod)
	}
	upstream.TurnAway(b, c.scheduler.SchedulingQueue, waiting, rejectors...)
	for b.Loop() {
		tell(queueOf{c})
	}
}

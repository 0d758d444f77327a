package plugins_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/liveness"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/test/upstream"
)

// replica is a scheduler that another one may lead beside. It is told of nodes and pods as by an API server.
type replica struct {
	*cluster
	loop    liveness.Loop
	standby *plugins.Standby
}

// newReplica returns a replica of a cluster. No pod waits in its queue.
func newReplica(t *testing.T, nodes ...*corev1.Node) *replica {
	t.Helper()
	r := &replica{}
	r.cluster = newClusterFor(t, plugins.Dependencies{Loop: &r.loop}, nil, nodes...)
	upstream.OfferNothing(r.scheduler, nil)
	plugins.Wrap(r.scheduler, plugins.Options{})
	r.standby = plugins.NewStandby(r.scheduler)
	return r
}

// lead has the loop begin.
func (r *replica) lead() {
	r.t.Helper()
	if err := upstream.Ask(r.scheduler); err != nil {
		r.t.Fatal(err)
	}
}

// come tells of a pod that another leader has bound.
func (r *replica) come(pod *corev1.Pod) {
	r.t.Helper()
	if err := r.podStore().Add(pod); err != nil {
		r.t.Fatal(err)
	}
	if err := r.scheduler.Cache.AddPod(klog.Background(), pod); err != nil {
		r.t.Fatal(err)
	}
}

// leave tells that a pod has ended.
func (r *replica) leave(pod *corev1.Pod) {
	r.t.Helper()
	if err := r.podStore().Delete(pod); err != nil {
		r.t.Fatal(err)
	}
	if err := r.scheduler.Cache.RemovePod(klog.Background(), pod); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) podStore() interface {
	Add(any) error
	Delete(any) error
} {
	return r.scheduler.Profiles[names.SchedulerName].SharedInformerFactory().Core().V1().Pods().Informer().GetStore()
}

// TestAStandbyChangesNoDecision has another leader bind pods and others end, while one replica reads now and then and one does not. Both lead
// then, and must place the same pods on the same nodes.
func TestAStandbyChangesNoDecision(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			nodes := randomNodes(r, 40)
			reads, other := newReplica(t, nodes...), newReplica(t, nodes...)
			var running []*corev1.Pod
			for i := range 200 {
				if r.IntN(4) == 0 && len(running) > 0 {
					reads.leave(running[0])
					other.leave(running[0])
					running = running[1:]
				} else {
					pod := randomPod(r, i).Node(nodes[r.IntN(len(nodes))].Name).Obj()
					reads.come(pod)
					other.come(pod)
					running = append(running, pod)
				}
				if r.IntN(5) == 0 && !reads.standby.Read(t.Context()) {
					t.Fatal("it reads nothing more, and does not lead")
				}
			}
			reads.lead()
			other.lead()
			placed := 0
			for i := range 100 {
				pod := randomPod(r, 1000+i)
				state, got, err := reads.attempt(pod.Obj())
				otherState, want, otherErr := other.attempt(pod.Obj())
				if got != want || fmt.Sprint(err) != fmt.Sprint(otherErr) {
					t.Fatalf("pod %d: %q, %v by who has read before, %q, %v by who has not", i, got, err, want, otherErr)
				}
				if err == nil {
					placed++
					reads.bind(state, pod, got)
					other.bind(otherState, pod, want)
				}
			}
			if placed < 20 {
				t.Errorf("only %d pods found a node, so the test shows little", placed)
			}
		})
	}
}

// TestTheFirstAttemptFindsWhatTheStandbyRead counts the nodes that are read for the first time.
func TestTheFirstAttemptFindsWhatTheStandbyRead(t *testing.T) {
	nodes := manyNodes(20)
	for name, standsBy := range map[string]bool{"a process that leads at once": false, "one that stood by": true} {
		t.Run(name, func(t *testing.T) {
			r := newReplica(t, nodes...)
			r.come(pod("x", "1", "4").Node("n00").Obj())
			if standsBy && !r.standby.Read(t.Context()) {
				t.Fatal("it reads nothing")
			}
			before := r.loop.CurrentState().Reads
			r.lead()
			if _, err := r.try(pod("p", "1", "1").Obj()); err != nil {
				t.Fatal(err)
			}
			if read := r.loop.CurrentState().Reads - before; (read == 0) != standsBy {
				t.Errorf("the first attempt reads %d nodes", read)
			}
		})
	}
}

// TestAStandbyEndsWhenTheLoopBegins, which has the snapshot to itself from then on.
func TestAStandbyEndsWhenTheLoopBegins(t *testing.T) {
	r := newReplica(t, manyNodes(20)...)
	var reading sync.WaitGroup
	reading.Go(func() {
		for i := 0; r.standby.Read(t.Context()); i++ {
			r.scheduler.Cache.UpdateNode(klog.Background(), nil, gpuNode(fmt.Sprintf("n%02d", i%20), "pcie"))
		}
	})
	r.lead()
	for i := range 20 {
		r.put(pod(fmt.Sprint("x", i), "1", "4"), fmt.Sprintf("n%02d", i))
		if _, err := r.try(pod("p", "1", "1").Obj()); err != nil {
			t.Fatal(err)
		}
	}
	reading.Wait()
	if r.standby.Read(t.Context()) {
		t.Error("it still reads")
	}
}

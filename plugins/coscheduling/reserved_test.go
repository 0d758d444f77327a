package coscheduling

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
	"g8s.host/gpu-scheduler/test/fixture"
)

// knowing is a handle whose informers know some reservations, and do not run.
type knowing struct {
	fwk.Handle
	factory informers.SharedInformerFactory
}

func (k knowing) SharedInformerFactory() informers.SharedInformerFactory { return k.factory }
func (knowing) KubeConfig() *rest.Config                                 { return &rest.Config{} }

// TestKeptNodesHaveNoRoomForAGang while they are kept from it, though no node has changed when they are not any more.
func TestKeptNodesHaveNoRoomForAGang(t *testing.T) {
	now := time.Now()
	clock := now
	reserved := follow.New(func() time.Time { return clock })
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	window := &names.GPUReservation{ObjectMeta: metav1.ObjectMeta{Name: "w"}, Spec: names.GPUReservationSpec{
		Nodes: []string{"a", "b"}, From: metav1.NewTime(now.Add(time.Hour)), To: metav1.NewTime(now.Add(2 * time.Hour)), Namespaces: []string{"theirs"},
	}}
	if err := follow.SeedInformer(factory, window); err != nil {
		t.Fatal(err)
	}
	if err := reserved.StartWatching(knowing{factory: factory}); err != nil {
		t.Fatal(err)
	}
	var nodes []fwk.NodeInfo
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, nodeInfo(fixture.Node(name).GPUs(8, "T4").Obj()))
	}
	b := placement.ClusterSnapshot{Nodes: nodes, DeviceCache: devices.NewCache(), Tables: &placement.CapacityTables{}, Reservations: reserved}
	steps := []struct {
		what      string
		after     time.Duration
		namespace string
		limit     time.Duration
		want      placement.GangCapacity
	}{
		{"they could run on when it begins", 0, "ours", 0, placement.GangCapacity{Free: 1, Empty: 3}},
		{"they end before", 0, "ours", 30 * time.Minute, placement.GangCapacity{Free: 3, Empty: 3}},
		{"it is for them", 0, "theirs", 0, placement.GangCapacity{Free: 3, Empty: 3}},
		{"there is no time left", 50 * time.Minute, "ours", 30 * time.Minute, placement.GangCapacity{Free: 1, Empty: 3}},
		{"it is over", 2 * time.Hour, "ours", 0, placement.GangCapacity{Free: 3, Empty: 3}},
	}
	for _, step := range steps {
		clock = now.Add(step.after)
		pod := fixture.Pod("m").GPUs(8).Obj()
		pod.Namespace = step.namespace
		if step.limit > 0 {
			pod.Spec.ActiveDeadlineSeconds = ptr.To(int64(step.limit.Seconds()))
		}
		waiting := []placement.PodClass{{Pod: pod, Count: 3}}
		seats, err := b.SlotsFor(waiting)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.CapacityFor(waiting, seats, 0); got != step.want {
			t.Errorf("%s: the room is %+v, want %+v", step.what, got, step.want)
		}
		beside := 0
		for _, info := range nodes {
			beside += min(1, seats[0].CapacityAfter(&placement.NodeChange{}, info, b))
		}
		if beside != step.want.Free {
			t.Errorf("%s: %d nodes take one, want %d", step.what, beside, step.want.Free)
		}
	}
}

// TestPodsThatRunForLongerAreOfAnotherKind, as nodes may be kept from them alone.
func TestPodsThatRunForLongerAreOfAnotherKind(t *testing.T) {
	short, long := fixture.Pod("m").GPUs(8).Obj(), fixture.Pod("m").GPUs(8).Obj()
	if !placement.HaveSameDemand(short, long) {
		t.Error("equal pods are not alike")
	}
	if short.Spec.ActiveDeadlineSeconds = ptr.To[int64](60); placement.HaveSameDemand(short, long) {
		t.Error("pods that differ in their time limit are alike")
	}
}

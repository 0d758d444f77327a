package inventory

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestSpotPools counts machines by how they are, and says what those cost that are there.
func TestSpotPools(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	machine := func(name, instance, state, leaving string) names.SpotMachine {
		m := names.SpotMachine{Name: name, Instance: instance, State: state, Requested: at}
		if state == names.MachineJoined || leaving != "" {
			m.JoinedAt = &at
		}
		if leaving != "" {
			m.Leaving = &names.SpotLeaving{Reason: leaving, Since: at, End: &at}
		}
		return m
	}
	inDoubt := machine("g", "", names.MachineLaunching, "")
	inDoubt.Asked = &at
	inDoubt.PublicIP = "203.0.113.1"
	pool := names.SpotPool{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Generation: 3, CreationTimestamp: at},
		Spec: names.SpotPoolSpec{
			Pool: "train", GPUType: "A100", Minimum: 2, Maximum: 8, Provider: names.SpotProvider{Name: "TencentCloud", Region: "r"},
			Template: names.MachineTemplate{ChargeType: "Spot", MaxPrice: "1.905"},
		},
		Status: names.SpotPoolStatus{
			ObservedGeneration: 3, Size: 3, Joined: 1,
			Machines: []names.SpotMachine{
				machine("d", "ins-4", names.MachineLeaving, names.LeavingInterrupted), machine("a", "ins-1", names.MachineJoined, ""),
				machine("b", "ins-2", names.MachineStarting, ""), machine("c", "", names.MachineLaunching, ""),
				machine("e", "ins-5", names.MachineLeaving, names.LeavingIdle), machine("f", "ins-6", names.MachineGone, names.LeavingGone),
				inDoubt,
			},
			Conditions: []metav1.Condition{
				{Type: names.ConditionReady, Status: metav1.ConditionFalse, Message: "1 of 2"},
				{Type: names.ConditionCapacityAvailable, Status: metav1.ConditionFalse, Message: "sold out"},
			},
		},
	}
	got := BuildSpotPools([]names.SpotPool{pool, {ObjectMeta: metav1.ObjectMeta{Name: "a", Generation: 1}}})
	if len(got) != 2 || got[0].Name != "a" || !got[0].Stale || got[0].Machines == nil || got[0].Conditions == nil || got[0].MaxPerHour != "" {
		t.Fatalf("got %+v", got)
	}
	b := got[1]
	want := SpotPool{
		Name: "b", Pool: "train", GPUType: "A100", Provider: "TencentCloud", Region: "r", ChargeType: "Spot", Minimum: 2, Maximum: 8,
		Wanted: 3, Running: 1, Starting: 3, Interrupted: 1, Leaving: 2, MaxPrice: "1.905", MaxPerHour: "9.53", Trouble: "sold out", Created: at.Time,
		Conditions: b.Conditions, Machines: b.Machines,
	}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(b.Conditions) != 2 || len(b.Machines) != 7 || b.Machines[0].Name != "a" || b.Machines[3].Leaving != names.LeavingInterrupted || b.Machines[3].End == nil ||
		b.Machines[6].PublicIP != "203.0.113.1" {
		t.Errorf("machines %+v, conditions %+v", b.Machines, b.Conditions)
	}
	pool.Status.Conditions = append(pool.Status.Conditions, metav1.Condition{Type: names.ConditionMachinesJoin, Status: metav1.ConditionFalse, Message: "no kubelet"})
	if got := BuildSpotPools([]names.SpotPool{pool})[0].Trouble; got != "no kubelet" {
		t.Errorf("the trouble is %q; more machines would not join either", got)
	}
	pool.Spec.Template.ChargeType = names.ChargeOnDemand
	if got := BuildSpotPools([]names.SpotPool{pool})[0]; got.MaxPrice != "" || got.MaxPerHour != "" {
		t.Errorf("OnDemand machines cost at most %q, %q an hour; the cloud is told of no bound", got.MaxPrice, got.MaxPerHour)
	}
}

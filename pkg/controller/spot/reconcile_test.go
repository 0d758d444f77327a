package spot_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

// killedAt kills the controller at each of its calls in turn, before and after it is carried out, and looks at what came of it.
func killedAt(t *testing.T, calls int, change func(*g8s.SpotPoolSpec), then func(*world)) {
	t.Helper()
	for number := range calls {
		for _, after := range []bool{false, true} {
			w := newWorld(t, uint64(number), change)
			w.begin(&fuse{left: number, after: after})
			w.run(2 * time.Minute)
			then(w)
			if t.Failed() {
				t.Fatalf("when it was killed at call %d, after it: %v", number, after)
			}
		}
	}
}

// TestKilledAtAnyCallOfAPurchase buys each machine once.
func TestKilledAtAnyCallOfAPurchase(t *testing.T) {
	t.Parallel()
	killedAt(t, 24, func(s *g8s.SpotPoolSpec) { s.Minimum, s.Maximum = 3, 3 }, func(w *world) {
		if bought := len(w.cloud.Machines()); bought != 3 {
			w.Errorf("%d machines were bought, want 3", bought)
		}
		if status := w.pool().Status; status.Joined != 3 {
			w.Errorf("%d have joined", status.Joined)
		}
	})
}

// TestAnotherAccountIsNotBelieved: the list of an account without our machines ends none, and buys none.
func TestAnotherAccountIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.run(2 * time.Minute)
	before := w.pool().Status
	w.cloud.Lag = 1000 * time.Hour // it shows nothing
	w.run(30 * time.Minute)
	after := w.pool().Status
	condition := meta.FindStatusCondition(after.Conditions, g8s.ConditionCloudAnswers)
	if after.Size != before.Size || condition.Reason != "MachinesUnknown" || len(w.cloud.Machines()) != int(before.Size) {
		t.Errorf("size %d after %d, %d machines, condition %v", after.Size, before.Size, len(w.cloud.Machines()), condition)
	}
	w.cloud.Lag = 0
	w.run(time.Minute)
	if len(w.alive()) != int(before.Size) || !meta.IsStatusConditionTrue(w.pool().Status.Conditions, g8s.ConditionCloudAnswers) {
		t.Errorf("%d machines, conditions %v", len(w.alive()), w.pool().Status.Conditions)
	}
}

// TestACloudThatDoesNotAnswerForHalfAnHour: machines stay, and the cloud is not stormed.
func TestACloudThatDoesNotAnswerForHalfAnHour(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.run(time.Minute)
	w.cloud.Set(fakecloud.Faults{LoseBefore: 1})
	before := w.cloud.Calls("list")
	w.run(30 * time.Minute)
	if calls := w.cloud.Calls("list") - before; calls > 90 {
		t.Errorf("it was asked %d times in 30 min", calls)
	}
	w.cloud.Set(fakecloud.Faults{})
	w.run(2 * time.Minute)
	if machines := w.cloud.Machines(); len(machines) != 4 || len(w.alive()) != 4 {
		t.Errorf("%d machines were bought, and %d live, want 4", len(machines), len(w.alive()))
	}
}

// TestASecretThatIsMissing is told, seldom asked for, and heeded when it comes.
func TestASecretThatIsMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	if err := w.client.Delete(w.Context(), secretOf("account", nil)); err != nil {
		t.Fatal(err)
	}
	w.run(10 * time.Minute)
	condition := meta.FindStatusCondition(w.pool().Status.Conditions, g8s.ConditionCloudAnswers)
	if condition == nil || !strings.Contains(condition.Message, "there is no Secret g8s-spot/account") {
		t.Errorf("the condition is %v", condition)
	}
	if failures := w.pool().Status.Failures; failures > 8 {
		t.Errorf("it was tried %d times in 10 min", failures)
	}
	w.create(secretOf("account", map[string]string{"secretId": canaryID, "secretKey": canaryKey}))
	w.run(7 * time.Minute)
	if status := w.pool().Status; status.Joined != 4 {
		t.Errorf("%d machines have joined", status.Joined)
	}
}

// TestMachinesOfOthersAreLeftAlone: those of another cluster, of another SpotPool, and nodes that only look like ours.
func TestMachinesOfOthersAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	for i, tags := range []map[string]string{{"cluster": "other", "pool": poolName}, {"cluster": "cluster-uid", "pool": "other"}, nil} {
		w.cloud.Put(fakecloud.Machine{ID: "ins-other-" + string(rune('a'+i)), Order: fakecloud.Order{Name: "other-" + string(rune('a'+i)), Tags: tags}})
	}
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: poolName + "-mine"}, Spec: corev1.NodeSpec{ProviderID: "qcloud:///1/ins-other-a"}})
	w.run(5 * time.Minute)
	if err := w.client.Delete(w.Context(), w.pool()); err != nil {
		t.Fatal(err)
	}
	w.run(10 * time.Minute)
	if alive := w.alive(); len(alive) != 3 || w.pool() != nil {
		t.Errorf("%d machines are left, want the 3 of others", len(alive))
	}
	var node corev1.Node
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: poolName + "-mine"}, &node); err != nil || len(node.Labels)+len(node.Spec.Taints) > 0 {
		t.Errorf("the node of somebody else is %v, %v", node, err)
	}
}

// TestAStatusThatIsLost: the machines are found by their tags.
func TestAStatusThatIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.run(2 * time.Minute)
	pool := w.pool()
	pool.Status = g8s.SpotPoolStatus{}
	if err := w.client.Status().Update(w.Context(), pool); err != nil {
		t.Fatal(err)
	}
	w.run(5 * time.Minute)
	if status := w.pool().Status; len(w.cloud.Machines()) != 4 || status.Joined != 4 {
		t.Errorf("%d machines were bought, and %d have joined, want 4", len(w.cloud.Machines()), status.Joined)
	}
	w.leavesNothing()
}

// TestJobsAreToldAndMoved: a pod that asks for it is told, then moved; one that is not to be moved stays.
func TestJobsAreToldAndMoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, func(s *g8s.SpotPoolSpec) { s.Minimum, s.Maximum = 2, 2 })
	w.run(2 * time.Minute)
	machines := w.staying()
	pod := func(name, node string, annotations map[string]string) {
		w.create(&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: name, UID: types.UID("uid-of-" + name), Annotations: annotations,
				OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: name, UID: "job", Controller: ptr.To(true)}},
			},
			Spec:   corev1.PodSpec{NodeName: node, SchedulerName: g8s.SchedulerName},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		})
	}
	pod("saves", machines[0].Name, map[string]string{g8s.AnnotationCheckpoint: g8s.True})
	pod("stays", machines[1].Name, map[string]string{g8s.AnnotationNoMigration: g8s.True})
	w.cloud.Interrupt(machines[0].ID, 3*time.Minute)
	w.cloud.Interrupt(machines[1].ID, 3*time.Minute)
	w.run(30 * time.Second)
	var saves corev1.Pod
	if err := w.client.Get(w.Context(), client.ObjectKey{Namespace: "default", Name: "saves"}, &saves); err != nil {
		t.Fatal(err)
	}
	if by, err := time.Parse(time.RFC3339, saves.Annotations[g8s.AnnotationCheckpointNow]); err != nil || by.Before(w.clock.Now()) {
		t.Errorf("its state is to be saved by %q", saves.Annotations[g8s.AnnotationCheckpointNow])
	}
	if w.tells("saves MovedFromSpotMachine") {
		t.Error("it was moved before its time")
	}
	w.run(time.Minute)
	if !w.tells("saves MovedFromSpotMachine") || !w.tells("stays NotMovedFromSpotMachine: it is not to be moved without a person") {
		t.Errorf("the events are\n%s", strings.Join(w.events.all(), "\n"))
	}
	if w.tells("stays MovedFromSpotMachine") {
		t.Error("what was not to be moved was")
	}
}

// tells reports whether there was an event.
func (w *world) tells(text string) bool {
	return slices.ContainsFunc(w.events.all(), func(line string) bool { return strings.Contains(line, text) })
}

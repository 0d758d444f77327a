package broken

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

func node(t *testing.T, health string, ready corev1.ConditionStatus) *corev1.Node {
	t.Helper()
	inventory := gpu.Inventory{GPUs: []gpu.GPU{{UUID: "GPU-0", Health: health, Since: noon}}}
	text, err := inventory.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{g8s.AnnotationInventory: text}, Labels: map[string]string{g8s.LabelGPUType: "A"}},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

// TestAPoolIsLookedAtAgain as long as it has broken cards: a pod may come to one that was bound before it broke, and no event of the node
// tells of that.
func TestAPoolIsLookedAtAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		node  *corev1.Node
		again time.Duration
	}{
		"a broken card that nobody holds": {node(t, "Xid79", corev1.ConditionTrue), requeueLater},
		"no broken card":                  {node(t, gpu.Healthy, corev1.ConditionTrue), 0},
		"a node that is recovery's":       {node(t, "Xid79", corev1.ConditionUnknown), 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(tc.node).WithIndex(&corev1.Pod{}, index.Node, func(client.Object) []string { return nil }).Build()
			r := &Reconciler{Client: c, Live: c, Clock: testingclock.NewFakePassiveClock(noon), Settings: Settings{After: time.Second}}
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: g8s.DefaultPool}})
			if err != nil || result.RequeueAfter != tc.again {
				t.Errorf("looked at again in %s, error %v; want %s", result.RequeueAfter, err, tc.again)
			}
		})
	}
}

// TestAClockThatIsAhead of a node's, or a node that does not say since when, adds no more than the time that a pod has anyway, by our own clock.
func TestAClockThatIsAhead(t *testing.T) {
	for name, since := range map[string]time.Time{"an hour ahead": noon.Add(time.Hour), "nothing said": {}} {
		t.Run(name, func(t *testing.T) {
			struck := node(t, "Xid79", corev1.ConditionTrue)
			inventory := gpu.Inventory{GPUs: []gpu.GPU{{UUID: "GPU-0", Health: "Xid79", Since: since}}}
			text, err := inventory.Encode()
			if err != nil {
				t.Fatal(err)
			}
			struck.Annotations[g8s.AnnotationInventory] = text
			evicted := 0
			c := fake.NewClientBuilder().WithObjects(struck, placed("pod")).WithIndex(&corev1.Pod{}, index.Node, onNode).
				WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
					evicted++
					return nil
				}}).Build()
			now := testingclock.NewFakePassiveClock(noon)
			r := &Reconciler{Client: c, Live: c, Events: events.NewFakeRecorder(10), Clock: now, Settings: Settings{After: 10 * time.Second}}
			for _, tc := range []struct {
				at      time.Duration
				evicted int
			}{{0, 0}, {9 * time.Second, 0}, {10 * time.Second, 1}} {
				now.SetTime(noon.Add(tc.at))
				if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: g8s.DefaultPool}}); err != nil {
					t.Fatal(err)
				}
				if evicted != tc.evicted {
					t.Errorf("%s after it was seen: %d evictions, want %d", tc.at, evicted, tc.evicted)
				}
			}
		})
	}
}

// TestOneNodeAfterTheOther: a pool whose cards break one by one is a storm, too, though the first pods have left when the next card breaks.
func TestOneNodeAfterTheOther(t *testing.T) {
	first := node(t, "Xid79", corev1.ConditionTrue)
	second := first.DeepCopy()
	second.Name = "n2"
	evicted := 0
	c := fake.NewClientBuilder().WithObjects(first, second, placed("pod")).WithIndex(&corev1.Pod{}, index.Node, onNode).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(context.Context, client.Client, string, client.Object, client.Object, ...client.SubResourceCreateOption) error {
			evicted++
			return nil
		}}).Build()
	told := events.NewFakeRecorder(10)
	r := &Reconciler{Client: c, Live: c, Events: told, Clock: testingclock.NewFakePassiveClock(noon.Add(time.Minute)), Settings: Settings{After: time.Second}}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: g8s.DefaultPool}}); err != nil {
		t.Fatal(err)
	}
	if evicted != 0 || len(told.Events) != 1 {
		t.Errorf("%d evictions and %d events, want none and one: nobody is left on the other node", evicted, len(told.Events))
	}
}

// placed is a pod of a Job on node n1, with its card.
func placed(name string) *corev1.Pod {
	pod := holder("Xid79", 0).Pod.DeepCopy()
	pod.Name, pod.Namespace, pod.UID = name, "team", types.UID(name)
	pod.Spec.NodeName, pod.Spec.SchedulerName = "n1", g8s.SchedulerName
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: "job", UID: "job", Controller: ptr.To(true)}}
	return pod
}

// onNode is the index of pods by their nodes.
func onNode(pod client.Object) []string { return []string{pod.(*corev1.Pod).Spec.NodeName} }

// TestAnEvictionThatIsRefused holds up no other: two budgets for one pod, which any user can write, make it an error of the API server.
func TestAnEvictionThatIsRefused(t *testing.T) {
	pods := []client.Object{node(t, "Xid79", corev1.ConditionTrue)}
	for _, name := range []string{"odd", "plain"} {
		pods = append(pods, placed(name))
	}
	var evicted []string
	c := fake.NewClientBuilder().WithObjects(pods...).WithIndex(&corev1.Pod{}, index.Node, onNode).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceCreate: func(_ context.Context, _ client.Client, _ string, pod, _ client.Object, _ ...client.SubResourceCreateOption) error {
			if pod.GetName() == "odd" {
				return errors.New("it has more than one PodDisruptionBudget")
			}
			evicted = append(evicted, pod.GetName())
			return nil
		}}).Build()
	told := events.NewFakeRecorder(10)
	now := testingclock.NewFakePassiveClock(noon.Add(time.Minute))
	r := &Reconciler{Client: c, Live: c, Events: told, Clock: now, Settings: Settings{After: time.Second}}
	for range 2 {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: g8s.DefaultPool}})
		if err != nil || result.RequeueAfter != requeueSoon {
			t.Errorf("looked at again in %s, error %v; want %s", result.RequeueAfter, err, requeueSoon)
		}
	}
	if !slices.Equal(evicted, []string{"plain", "plain"}) { // the fake one does not go
		t.Errorf("evicted %v, want the other pod, each time", evicted)
	}
	if len(told.Events) != 3 {
		t.Errorf("%d events, want one of the pod that stays, and two of the other", len(told.Events))
	}
}

// TestWhatOfANodeIsOfInterest: not its heartbeats, of which a thousand nodes have three a second.
func TestWhatOfANodeIsOfInterest(t *testing.T) {
	before := node(t, gpu.Healthy, corev1.ConditionTrue)
	moved, beat := before.DeepCopy(), before.DeepCopy()
	moved.Labels[g8s.LabelPool] = "other"
	beat.Status.Conditions[0].LastHeartbeatTime = metav1.NewTime(noon)
	for name, tc := range map[string]struct {
		now  *corev1.Node
		want bool
	}{
		"a card breaks":               {node(t, "Xid79", corev1.ConditionTrue), true},
		"it was not ready, and is":    {node(t, gpu.Healthy, corev1.ConditionUnknown), true},
		"it is moved to another pool": {moved, true},
		"it lives":                    {beat, false},
	} {
		if got := gpusChanged(before, tc.now); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

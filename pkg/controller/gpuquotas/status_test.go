package gpuquotas

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/index"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func quotaOf(name string, least int64) *g8s.GPUQuota {
	return &g8s.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: g8s.GPUQuotaSpec{Namespaces: []string{name}, Pool: "train", Min: least}}
}

func counted(name string, used, lent int64, waiting int, borrowers ...inventory.QuotaBorrower) inventory.GPUQuota {
	return inventory.GPUQuota{Name: name, Used: &used, Borrowed: ptr.To[int64](0), Free: ptr.To[int64](0), Lent: &lent, Borrowers: borrowers,
		Waiting: &inventory.QuotaWaiting{Jobs: waiting, GPUs: int64(8 * waiting)}, Conditions: []metav1.Condition{{Type: g8s.ConditionOvercommitted, Status: metav1.ConditionFalse}}}
}

// TestBorrowersAreTold while something waits for what they borrow, and no more than there is room for.
func TestBorrowersAreTold(t *testing.T) {
	var all []inventory.QuotaBorrower
	for i := range 20 {
		all = append(all, inventory.QuotaBorrower{Namespace: fmt.Sprint("n", i), GPUs: 1, Jobs: []string{"secret"}})
	}
	for waiting, want := range map[int]int{0: 0, 1: g8s.MostBorrowers} {
		found := counted("a", 0, 20, waiting, all...)
		if got := StatusOf(quotaOf("a", 32), &found); len(got.Borrowers) != want || got.Lent != 20 || got.ObservedGeneration != 1 {
			t.Errorf("with %d jobs that wait it is %+v", waiting, got)
		}
	}
}

// TestWhoseStatusIsWrittenFirst: of a quota that is new, then of those that jobs wait for, and then each in its turn.
func TestWhoseStatusIsWrittenFirst(t *testing.T) {
	var quotas []g8s.GPUQuota
	var found []inventory.GPUQuota
	add := func(name string, isNew bool, waiting int, used int64) {
		is := counted(name, 0, 0, waiting)
		q := *quotaOf(name, 8)
		if !isNew {
			q.Status = StatusOf(&q, &is)
		}
		quotas, found = append(quotas, q), append(found, counted(name, used, 0, waiting))
	}
	add("a", false, 0, 8)
	add("b", false, 0, 8)
	add("c", false, 0, 8)
	add("same", false, 0, 0)
	add("new", true, 0, 0)
	add("wanted", false, 1, 8)
	for after, want := range map[string][]string{
		"": {"new", "wanted", "a", "b", "c"}, "a": {"new", "wanted", "b", "c", "a"}, "c": {"new", "wanted", "a", "b", "c"},
	} {
		var got []string
		for _, change := range ChangedStatuses(quotas, found, after) {
			got = append(got, change.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", after, diff)
		}
	}
}

// world is a cluster in memory with a reconciler whose writes are counted.
type world struct {
	*testing.T
	client client.Client
	clock  *clocktesting.FakePassiveClock
	writes atomic.Int32
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, g8s.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{T: t, clock: clocktesting.NewFakePassiveClock(noon)}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&g8s.GPUQuota{}).
		WithIndex(&corev1.Pod{}, index.Node, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).
		WithIndex(&corev1.Pod{}, index.WaitingPool, func(o client.Object) []string {
			if pod := o.(*corev1.Pod); pod.Spec.NodeName == "" {
				return []string{"train"}
			}
			return nil
		}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourceApply: func(ctx context.Context, c client.Client, sub string, o runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			w.writes.Add(1)
			return c.SubResource(sub).Apply(ctx, o, opts...)
		}}).Build()
	return w
}

// reconcile reconciles until all is written, as if time passed, by a new leader.
func (w *world) reconcile() (written int32) {
	w.Helper()
	r := New(w.client, w.clock)
	r.writes = rate.NewLimiter(rate.Inf, 1)
	before := w.writes.Load()
	for range 1000 {
		result, err := r.Reconcile(w.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "train"}})
		if err != nil {
			w.Fatal(err)
		}
		if result.RequeueAfter == 0 {
			return w.writes.Load() - before
		}
		w.clock.SetTime(w.clock.Now().Add(result.RequeueAfter))
	}
	w.Fatal("it is never done")
	return 0
}

func (w *world) status(name string) g8s.GPUQuotaStatus {
	w.Helper()
	var q g8s.GPUQuota
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: name}, &q); err != nil {
		w.Fatal(err)
	}
	return q.Status
}

func podOf(namespace, name, node string) *corev1.Pod {
	pod := fixture.Pod(name).GPUs(8).Pool("train").Obj()
	pod.Namespace, pod.UID, pod.Spec.NodeName = namespace, types.UID(namespace+name), node
	pod.Status.Phase = corev1.PodRunning
	if node == "" {
		pod.Status.Phase = corev1.PodPending
	}
	pod.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	return pod
}

// TestAStatusIsWrittenWhenItChanges, and by a new leader not again.
func TestAStatusIsWrittenWhenItChanges(t *testing.T) {
	w := newWorld(t, fixture.Node("n").Pool("train").GPUs(16, "T4").Obj(), quotaOf("lender", 16), quotaOf("borrower", 8),
		podOf("borrower", "one", "n"), podOf("borrower", "two", "n"), podOf("lender", "waits", ""))
	if got := w.reconcile(); got != 2 {
		t.Errorf("%d writes, want one for each quota", got)
	}
	since := metav1.NewTime(noon.Add(-time.Hour))
	want := g8s.GPUQuotaStatus{ObservedGeneration: 1, Lent: 8, Borrowers: []g8s.GPUQuotaBorrower{{Namespace: "borrower", GPUs: 8}},
		Waiting: g8s.PendingDemand{Jobs: 1, GPUs: 8, Since: &since}}
	got := w.status("lender")
	conditions := got.Conditions
	if got.Conditions = nil; len(conditions) != 2 || conditions[0].Status != metav1.ConditionTrue || conditions[1].Status != metav1.ConditionTrue {
		t.Errorf("24 of 16 GPUs are guaranteed, and the conditions are %+v", conditions)
	}
	if got.Waiting.Since != nil && !got.Waiting.Since.Equal(&since) {
		t.Errorf("it waits since %s", got.Waiting.Since)
	}
	got.Waiting.Since = &since
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the lender (-want +got):\n%s", diff)
	}
	if again := w.reconcile(); again != 0 {
		t.Errorf("a new leader writes %d statuses, and nothing has changed", again)
	}
	if err := w.client.Delete(t.Context(), podOf("lender", "waits", "")); err != nil {
		t.Fatal(err)
	}
	if changed := w.reconcile(); changed != 1 || len(w.status("lender").Borrowers) != 0 {
		t.Errorf("%d writes, and the lender is %+v", changed, w.status("lender"))
	}
}

// TestManyQuotasAreWritten once each, some at a time, twice a second.
func TestManyQuotasAreWritten(t *testing.T) {
	objects := []client.Object{fixture.Node("n").Pool("train").GPUs(16, "T4").Obj()}
	for i := range 45 {
		objects = append(objects, quotaOf(fmt.Sprintf("q-%04d", i), 0))
	}
	w := newWorld(t, objects...)
	if limit := New(w.client, w.clock).writes; limit.Limit() > 2 || limit.Burst() > 1 {
		t.Errorf("%v writes a second, %d at once", limit.Limit(), limit.Burst())
	}
	if got := w.reconcile(); got != 45 {
		t.Errorf("%d writes, want 45", got)
	}
	if again := w.reconcile(); again != 0 {
		t.Errorf("%d writes though nothing has changed", again)
	}
}

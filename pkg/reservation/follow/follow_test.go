package follow

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reservation"
)

func object(t *testing.T, name string, from, to time.Time) *unstructured.Unstructured {
	t.Helper()
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&names.GPUReservation{
		TypeMeta:   metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUReservation"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: to.Unix()},
		Spec:       names.GPUReservationSpec{Nodes: []string{"a"}, From: metav1.NewTime(from), To: metav1.NewTime(to)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: tree}
}

// TestNodesAreKeptAndReleased follows a cluster whose reservations come, change, end and go.
func TestNodesAreKeptAndReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := map[schema.GroupVersionResource]string{gpuReservations: "GPUReservationList"}
		began := time.Now()
		client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds, object(t, "first", began, began.Add(3*time.Hour)))
		api := client.Resource(gpuReservations)
		r := New(nil)
		var told []string
		var mu sync.Mutex
		r.OnRelease(func(windows []reservation.Window, _ time.Time) {
			mu.Lock()
			defer mu.Unlock()
			for _, w := range windows {
				told = append(told, w.Name+" after "+time.Since(began).String())
			}
		})
		keeps := func() bool {
			return r.ClosedFor(&corev1.Pod{}).FirstOn(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}) != nil
		}
		stop := run(t, r, client)
		defer stop()

		if !keeps() {
			t.Error("what was there from the beginning keeps nothing")
		}
		must(api.Create(t.Context(), object(t, "second", began.Add(4*time.Hour), began.Add(5*time.Hour)), metav1.CreateOptions{}))(t)
		time.Sleep(time.Hour)
		must(api.Update(t.Context(), object(t, "second", began.Add(4*time.Hour), began.Add(6*time.Hour)), metav1.UpdateOptions{}))(t)
		time.Sleep(4 * time.Hour)
		if !keeps() {
			t.Error("the second one keeps nothing")
		}
		time.Sleep(2 * time.Hour)
		if keeps() {
			t.Error("what has ended keeps nodes")
		}
		must(api.Create(t.Context(), object(t, "third", began.Add(9*time.Hour), began.Add(10*time.Hour)), metav1.CreateOptions{}))(t)
		time.Sleep(time.Hour)
		if err := api.Delete(t.Context(), "third", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		want := []string{"second after 1h0m1.1s", "first after 3h0m0s", "second after 6h0m0s", "third after 8h0m1.1s"}
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("released (-want +got):\n%s", diff)
		}
	})
}

// TestManyChangesAreOne: whoever annotates reservations releases nothing, and who changes many wakes the queue once.
func TestManyChangesAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := map[schema.GroupVersionResource]string{gpuReservations: "GPUReservationList"}
		client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
		api, began := client.Resource(gpuReservations), time.Now()
		r := New(nil)
		var told []int
		var mu sync.Mutex
		r.OnRelease(func(windows []reservation.Window, _ time.Time) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, len(windows))
		})
		stop := run(t, r, client)
		defer stop()
		for i := range 50 {
			must(api.Create(t.Context(), object(t, fmt.Sprint("r", i), began.Add(time.Hour), began.Add(2*time.Hour)), metav1.CreateOptions{}))(t)
		}
		time.Sleep(time.Second)
		for i := range 50 {
			one := object(t, fmt.Sprint("r", i), began.Add(time.Hour), began.Add(2*time.Hour))
			one.SetAnnotations(map[string]string{"seen": "yes"})
			must(api.Update(t.Context(), one, metav1.UpdateOptions{}))(t)
		}
		time.Sleep(time.Second)
		for i := range 50 {
			must(api.Update(t.Context(), object(t, fmt.Sprint("r", i), began.Add(time.Hour), began.Add(3*time.Hour)), metav1.UpdateOptions{}))(t)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		if diff := cmp.Diff([]int{50}, told); diff != "" {
			t.Errorf("windows released each time (-want +got):\n%s", diff)
		}
	})
}

// run has reservations follow a cluster until the returned function is called.
func run(t *testing.T, r *Reservations, client dynamic.Interface) func() {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if err := r.addHandlers(factory, client); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	time.Sleep(time.Second) // the informer has what is there
	return func() {
		stop()
		factory.Shutdown()
		r.waking.Lock()
		defer r.waking.Unlock()
		if r.timer != nil {
			r.timer.Stop()
		}
	}
}

func must(_ *unstructured.Unstructured, err error) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhoIsNotFollowedHasNone: a scheduler without an API server, or without reservations at all.
func TestWhoIsNotFollowedHasNone(t *testing.T) {
	for _, r := range []*Reservations{nil, New(nil)} {
		if r.HasAny() || r.ClosedFor(&corev1.Pod{}) != nil {
			t.Error("there are some")
		}
	}
}

// TestASimulationKnowsItsReservations, whose informers do not run.
func TestASimulationKnowsItsReservations(t *testing.T) {
	factory, now := informers.NewSharedInformerFactory(fake.NewClientset(), 0), time.Now()
	kept := &names.GPUReservation{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: names.GPUReservationSpec{
		Nodes: []string{"a"}, From: metav1.NewTime(now), To: metav1.NewTime(now.Add(time.Hour)),
	}}
	if err := SeedInformer(factory, kept); err != nil {
		t.Fatal(err)
	}
	r := New(func() time.Time { return now })
	if err := r.addHandlers(factory, nil); err != nil {
		t.Fatal(err)
	}
	if !r.HasAny() || r.ClosedFor(&corev1.Pod{}) == nil {
		t.Error("it knows none")
	}
}

// TestWhatCannotBeReadKeepsNothing: others may have changed the CRD.
func TestWhatCannotBeReadKeepsNothing(t *testing.T) {
	odd := object(t, "odd", time.Now(), time.Now().Add(time.Hour))
	odd.Object["spec"] = map[string]any{"from": "tomorrow", "nodes": 7}
	out, err := transformReservation(odd)
	if one, ok := out.(*keptReservation); err != nil || !ok || one.Name != "odd" || one.window.KeepsNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}) {
		t.Errorf("it is read as %+v, %v", out, err)
	}
}

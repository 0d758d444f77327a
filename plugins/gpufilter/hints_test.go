package gpufilter

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
	"g8s.host/gpu-scheduler/test/fixture"
)

// shareOf returns a pod that shares one card.
func shareOf(memory string) *corev1.Pod {
	return st.MakePod().Name("pod").UID("pod").Label(names.LabelPool, "a").Annotation(names.AnnotationGPUShare, memory).
		Req(map[corev1.ResourceName]string{names.ResourceSharedGPU: "1"}).Obj()
}

// keeping returns a node with a card of 46068 MiB to share, of which the driver keeps some.
func keeping(t *testing.T, reservedMiB int64) *corev1.Node {
	return st.MakeNode().Name("n").Label(names.LabelPool, "a").Capacity(map[corev1.ResourceName]string{names.ResourceSharedGPU: "4"}).
		Annotation(names.AnnotationInventory, fixture.Cards("n", 46068).Reserved(reservedMiB).Annotation(t)).Obj()
}

func TestAfterNodeChange(t *testing.T) {
	suited := gpuNode("n", "a", "A100-80G")
	small := gpuNode("n", "a", "A100-80G")
	small.Status.Allocatable = st.MakeNode().Capacity(gpus("1")).Obj().Status.Allocatable
	heartbeat := suited.DeepCopy()
	heartbeat.Labels["unrelated"] = "x"
	closed := withAgent(suited, corev1.ConditionFalse, names.ReasonPodRejected)
	tests := map[string]struct {
		pod           *corev1.Pod
		before, after any
		want          fwk.QueueingHint
	}{
		"a new node that suits":                      {pod: podOf("a", "2").Obj(), after: suited, want: fwk.Queue},
		"a new node of another pool":                 {pod: podOf("b", "2").Obj(), after: suited},
		"a new node that is too small":               {pod: podOf("a", "2").Obj(), after: small},
		"a node joins the pool":                      {pod: podOf("a", "2").Obj(), before: gpuNode("n", "b", "A100-80G"), after: suited, want: fwk.Queue},
		"a node leaves the pool":                     {pod: podOf("a", "2").Obj(), before: suited, after: gpuNode("n", "b", "A100-80G")},
		"its device plugin comes back":               {pod: podOf("a", "2").Obj(), before: small, after: suited, want: fwk.Queue},
		"more GPUs on a node that suited before":     {pod: podOf("a", "1").Obj(), before: small, after: suited, want: fwk.Queue},
		"its agent is back":                          {pod: podOf("a", "2").Obj(), before: closed, after: suited, want: fwk.Queue},
		"its agent goes":                             {pod: podOf("a", "2").Obj(), before: suited, after: closed},
		"its agent matters to pods with GPUs alone":  {pod: st.MakePod().Label(names.LabelPool, "a").Obj(), after: closed, want: fwk.Queue},
		"fewer GPUs help nobody":                     {pod: podOf("a", "1").Obj(), before: suited, after: small},
		"a label that says nothing about GPUs":       {pod: podOf("a", "2").Obj(), before: suited, after: heartbeat},
		"no node mends a malformed request":          {pod: podOf("a", "-1").Obj(), after: suited},
		"a pod without GPUs waits for its pool only": {pod: st.MakePod().Label(names.LabelPool, "a").Obj(), after: small, want: fwk.Queue},
		"a type that the pod waits for": {
			pod:    podOf("a", "2").Annotation(names.AnnotationGPUTypes, "A100-80G").Obj(),
			before: gpuNode("n", "a", "T4"), after: suited, want: fwk.Queue,
		},
		"the driver keeps less of a card": {
			pod:    shareOf("46068Mi"),
			before: keeping(t, 640), after: keeping(t, 0), want: fwk.Queue,
		},
		"the driver keeps less of a card, and still too much": {
			pod:    shareOf("46068Mi"),
			before: keeping(t, 640), after: keeping(t, 64),
		},
		"the driver keeps less of a card that others share": {
			pod:    shareOf("1Gi"),
			before: keeping(t, 640), after: keeping(t, 64), want: fwk.Queue,
		},
		"a card turns healthy": {
			pod:    podOf("a", "1").Obj(),
			before: withCards(t, suited, -81920, 81920), after: withCards(t, suited, 81920, 81920), want: fwk.Queue,
		},
		"a card that is too small turns healthy": {
			pod:    podOf("a", "1").Annotation(names.AnnotationGPUMemoryMin, "40Gi").Obj(),
			before: withCards(t, suited, -24576, 81920), after: withCards(t, suited, 24576, 81920),
		},
		"a card turns healthy and the node still has too few": {
			pod:    podOf("a", "3").Obj(),
			before: withCards(t, suited, -81920, 81920), after: withCards(t, suited, 81920, 81920),
		},
		"a card breaks": {
			pod:    podOf("a", "1").Obj(),
			before: withCards(t, suited, 81920, 81920), after: withCards(t, suited, 81920, -81920),
		},
		"a card's memory becomes known": {
			pod:    podOf("a", "1").Annotation(names.AnnotationGPUMemoryMin, "40Gi").Obj(),
			before: withCards(t, suited, 0, 81920), after: withCards(t, suited, 81920, 81920), want: fwk.Queue,
		},
		"the node's agent reports cards that were only counted": {
			pod:    podOf("a", "1").Obj(),
			before: suited, after: withCards(t, suited, 81920, 81920), want: fwk.Queue,
		},
		"an annotation that says nothing about GPUs": {
			pod:    podOf("a", "1").Obj(),
			before: withCards(t, suited, 81920), after: annotated(withCards(t, suited, 81920)),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{})
			got, err := plugin.afterNodeChange(klog.Background(), tc.pod, tc.before, tc.after)
			if err != nil || got != tc.want {
				t.Errorf("hint %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func annotated(node *corev1.Node) *corev1.Node {
	node.Annotations["unrelated"] = "x"
	return node
}

// TestANodeLeavesAKeptPool, which is news to pods of no pool.
func TestANodeLeavesAKeptPool(t *testing.T) {
	inPool, out := gpuNode("n", "a", "A100-80G"), gpuNode("n", "b", "A100-80G")
	plugin := newPlugin(t, &configv1.GPUFilterArgs{}, inPool)
	plugin.reservations = knowing(t, &names.GPUReservation{Spec: names.GPUReservationSpec{
		Pool: "a", From: metav1.NewTime(time.Now()), To: metav1.NewTime(time.Now().Add(time.Hour)), Namespaces: []string{"theirs"},
	}})
	cpu := map[corev1.ResourceName]string{"cpu": "1"}
	for namespace, want := range map[string]fwk.QueueingHint{"ours": fwk.Queue, "theirs": fwk.QueueSkip} {
		pod := st.MakePod().Namespace(namespace).Req(cpu).Obj()
		if got, err := plugin.afterNodeChange(klog.Background(), pod, inPool, out); err != nil || got != want {
			t.Errorf("to a pod of %s the hint is %v, %v, want %v", namespace, got, err, want)
		}
		if got, err := plugin.afterNodeChange(klog.Background(), pod, out, inPool); err != nil || got != fwk.QueueSkip {
			t.Errorf("to a pod of %s the hint about a node that joins it is %v, %v", namespace, got, err)
		}
	}
}

// knowing are some reservations, without an API server.
func knowing(t *testing.T, known ...*names.GPUReservation) *follow.Reservations {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if err := follow.SeedInformer(factory, known...); err != nil {
		t.Fatal(err)
	}
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil,
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithKubeConfig(&rest.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	out := follow.New(nil)
	if err := out.StartWatching(handle); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestPodsOfOneBatchMayStayAsLong: while nodes are kept for some, pods that differ in their namespace or their deadline are not
// placed alike.
func TestPodsOfOneBatchMayStayAsLong(t *testing.T) {
	plugin := newPlugin(t, &configv1.GPUFilterArgs{})
	sign := func(namespace string, deadline int64) string {
		pod := podOf("a", "1").Namespace(namespace).Obj()
		if deadline > 0 {
			pod.Spec.ActiveDeadlineSeconds = &deadline
		}
		fragments, status := plugin.SignPod(t.Context(), pod)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		return fmt.Sprintf("%+v", fragments)
	}
	if sign("x", 0) != sign("y", 60) {
		t.Error("without reservations such pods are not alike")
	}
	plugin.reservations = knowing(t, &names.GPUReservation{Spec: names.GPUReservationSpec{
		Pool: "a", From: metav1.NewTime(time.Now()), To: metav1.NewTime(time.Now().Add(time.Hour)),
	}})
	if sign("x", 0) == sign("y", 0) || sign("x", 0) == sign("x", 60) {
		t.Error("with reservations such pods are alike")
	}
}

func TestAfterPodChange(t *testing.T) {
	waiting := podOf("a", "2").Obj()
	onNode := func(node string, pod *st.PodWrapper) *corev1.Pod { return pod.UID("other").Node(node).Obj() }
	nominated := podOf("a", "2").UID("other").Obj()
	nominated.Status.NominatedNodeName = "a1"
	other := podOf("a", "2").UID("other").Label(names.LabelPool, "b").Obj()
	limited := waiting.DeepCopy()
	limited.Spec.ActiveDeadlineSeconds = new(int64)
	tests := map[string]struct {
		before, after any
		want          fwk.QueueingHint
	}{
		"the pod gets a deadline":                           {before: waiting, after: limited, want: fwk.Queue},
		"GPUs come free on a node that suits":               {before: onNode("a1", podOf("a", "1")), want: fwk.Queue},
		"GPUs come free in another pool":                    {before: onNode("b1", podOf("b", "1"))},
		"a pod without GPUs frees none":                     {before: onNode("a1", st.MakePod())},
		"a pod that was on no node freed nothing":           {before: onNode("", podOf("a", "1"))},
		"a nomination is given up":                          {before: nominated, want: fwk.Queue},
		"the node is gone too":                              {before: onNode("a9", podOf("a", "1"))},
		"the pod moves to another pool":                     {before: waiting, after: podOf("b", "2").Obj(), want: fwk.Queue},
		"the pod takes another type, by annotation":         {before: waiting, after: podOf("a", "2").Annotation(names.AnnotationGPUTypes, "T4").Obj(), want: fwk.Queue},
		"the pod's request becomes readable":                {before: podOf("a", "-1").Obj(), after: waiting, want: fwk.Queue},
		"the pod's annotation becomes malformed":            {before: waiting, after: podOf("a", "2").Annotation(names.AnnotationGPUTypes, ",").Obj()},
		"only the pod's status changes":                     {before: waiting, after: podOf("a", "2").Condition("x", "True", "y").Obj()},
		"the author takes back cards that he named himself": {before: podOf("a", "2").Annotation(names.AnnotationGPUDevices, "{}").Obj(), after: waiting, want: fwk.Queue},
		"another pod is updated":                            {before: nominated, after: other},
		"a pod that overflowed held whole GPUs, surely":     {before: onNode("a1", podOf("a", "9223372036854775807").Req(gpus("1"))), want: fwk.Queue},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{}, twoPools...)
			got, err := plugin.afterPodChange(klog.Background(), waiting, tc.before, tc.after)
			if err != nil || got != tc.want {
				t.Errorf("hint %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func nominatedTo(node string, pod *corev1.Pod) *corev1.Pod {
	pod.Status.NominatedNodeName = node
	return pod
}

// TestAfterNominatedPodIsBound has a pod nominated to a node and then bound, which clears the nomination.
func TestAfterNominatedPodIsBound(t *testing.T) {
	nominatedTo := func(node string) *corev1.Pod { return nominatedTo(node, podOf("a", "1").UID("other").Obj()) }
	boundTo := func(node string) *corev1.Pod { return podOf("a", "1").UID("other").Node(node).Obj() }
	waiting := podOf("a", "2").Obj()
	tests := map[string]struct {
		seen    []*corev1.Pod
		bound   *corev1.Pod
		waiting *corev1.Pod
		want    fwk.QueueingHint
	}{
		"to another node, so that the first has room":       {[]*corev1.Pod{nominatedTo("a1")}, boundTo("b1"), waiting, fwk.Queue},
		"which the plugin hears of before the hint":         {[]*corev1.Pod{nominatedTo("a1"), boundTo("b1")}, boundTo("b1"), waiting, fwk.Queue},
		"to that very node":                                 {[]*corev1.Pod{nominatedTo("a1")}, boundTo("a1"), waiting, fwk.QueueSkip},
		"after it was nominated to that node instead":       {[]*corev1.Pod{nominatedTo("a1"), nominatedTo("b1")}, boundTo("b1"), waiting, fwk.QueueSkip},
		"after its nomination was given up":                 {[]*corev1.Pod{nominatedTo("a1"), nominatedTo("")}, boundTo("b1"), waiting, fwk.QueueSkip},
		"without having been nominated":                     {nil, boundTo("a1"), waiting, fwk.QueueSkip},
		"leaving a node of another pool than the pod's own": {[]*corev1.Pod{nominatedTo("b1")}, boundTo("a1"), waiting, fwk.QueueSkip},
		"while the pod that waits asks for no GPU":          {[]*corev1.Pod{nominatedTo("a1")}, boundTo("b1"), st.MakePod().Label(names.LabelPool, "a").Obj(), fwk.QueueSkip},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plugin := newPlugin(t, &configv1.GPUFilterArgs{}, twoPools...)
			for _, pod := range tc.seen {
				plugin.nominations.handleUpdate(pod, pod)
			}
			got, err := plugin.afterPodChange(klog.Background(), tc.waiting, nil, tc.bound)
			if err != nil || got != tc.want {
				t.Errorf("hint %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestNominationsOfPodsThatAreGoneAreForgotten(t *testing.T) {
	pod := podOf("a", "1").Obj()
	pod.Status.NominatedNodeName = "a1"
	successor := podOf("a", "1").UID("successor").Obj()
	tests := map[string]func(*nominations){
		"deleted":                            func(n *nominations) { n.forgetPod(pod) },
		"deleted while the watch was broken": func(n *nominations) { n.forgetPod(cache.DeletedFinalStateUnknown{Obj: pod}) },
		"replaced by one of its name":        func(n *nominations) { n.handleUpdate(pod, successor) },
	}
	for name, forget := range tests {
		t.Run(name, func(t *testing.T) {
			n := newPlugin(t, &configv1.GPUFilterArgs{}, twoPools...).nominations
			n.recordNomination(pod)
			if n.nodeOf(pod) != "a1" {
				t.Fatalf("nominated to %q, want a1", n.nodeOf(pod))
			}
			if forget(n); len(n.nodeByPod) > 0 {
				t.Errorf("still known: %v", n.nodeByPod)
			}
		})
	}
}

// BenchmarkAfterPodIsBound is what each pod that is bound costs for each one that waits.
func BenchmarkAfterPodIsBound(b *testing.B) {
	plugin := newPlugin(b, &configv1.GPUFilterArgs{}, twoPools...)
	bound := podOf("a", "1").UID("other").Node("b1").Obj()
	left := podOf("a", "1").UID("left").Obj()
	left.Status.NominatedNodeName = "a1"
	plugin.nominations.recordNomination(left)
	left = podOf("a", "1").UID("left").Node("b1").Obj()
	for name, pod := range map[string]*corev1.Pod{"never nominated": bound, "nominated elsewhere": left} {
		b.Run(name, func(b *testing.B) {
			waiting := podOf("a", "2").Obj()
			for b.Loop() {
				if _, err := plugin.afterPodChange(klog.Background(), waiting, nil, pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestHintsRetryWhatTheyCannotRead(t *testing.T) {
	plugin, pod := newPlugin(t, &configv1.GPUFilterArgs{}), podOf("a", "1").Obj()
	if got, err := plugin.afterNodeChange(klog.Background(), pod, nil, pod); err == nil || got != fwk.Queue {
		t.Errorf("hint for a node event with a pod: %v, %v, want Queue and an error", got, err)
	}
	if got, err := plugin.afterPodChange(klog.Background(), pod, twoPools[0], nil); err == nil || got != fwk.Queue {
		t.Errorf("hint for a pod event with a node: %v, %v, want Queue and an error", got, err)
	}
}

// TestEvents lists the events, each of which a test above needs: an event that is missing leaves pods waiting
// for the periodic flush, and one too many retries them for nothing.
func TestEvents(t *testing.T) {
	events, err := newPlugin(t, &configv1.GPUFilterArgs{}).EventsToRegister(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := map[fwk.EventResource]fwk.ActionType{
		fwk.Node:      fwk.Add | fwk.UpdateNodeLabel | fwk.UpdateNodeAllocatable | fwk.UpdateNodeAnnotation | fwk.UpdateNodeCondition | fwk.UpdateNodeTaint,
		fwk.Pod:       fwk.Add | fwk.Delete | fwk.UpdatePodScaleDown,
		fwk.TargetPod: fwk.Update,
	}
	for _, event := range events {
		if event.Event.ActionType != want[event.Event.Resource] || event.QueueingHintFn == nil {
			t.Errorf("event %v of %s, hint given: %v", event.Event.ActionType, event.Event.Resource, event.QueueingHintFn != nil)
		}
		delete(want, event.Event.Resource)
	}
	if len(want) > 0 {
		t.Errorf("missing events: %v", want)
	}
}

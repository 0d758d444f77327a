package follow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	fakedynamic "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/test/fixture"
)

// site is a cluster in memory, and quotas that follow it.
type site struct {
	*testing.T
	*Quotas
	client kubernetes.Interface
	api    dynamic.ResourceInterface
	stop   func()
}

func newSite(t *testing.T) *site {
	t.Helper()
	kinds := map[schema.GroupVersionResource]string{gpuQuotas: "GPUQuotaList"}
	client := fakedynamic.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), kinds)
	s := &site{T: t, client: fake.NewClientset(), api: client.Resource(gpuQuotas)}
	s.Quotas, s.stop = s.leader(client)
	return s
}

// leader is a scheduler that has just begun.
func (s *site) leader(client dynamic.Interface) (*Quotas, func()) {
	s.Helper()
	q, factory := New(nil), informers.NewSharedInformerFactory(s.client, 0)
	if err := q.addHandlers(factory, client); err != nil {
		s.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.Context())
	factory.Start(ctx.Done())
	time.Sleep(time.Second) // the informers have what is there
	return q, func() {
		stop()
		factory.Shutdown()
		time.Sleep(gatherInterval) // what was to be told is told
	}
}

func object(t *testing.T, quota *names.GPUQuota) *unstructured.Unstructured {
	t.Helper()
	quota.TypeMeta = metav1.TypeMeta{APIVersion: names.SchemeGroupVersion.String(), Kind: "GPUQuota"}
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(quota)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: tree}
}

func quota(namespace string, least, most int64) *names.GPUQuota {
	return &names.GPUQuota{ObjectMeta: metav1.ObjectMeta{Name: namespace}, Spec: names.GPUQuotaSpec{
		Namespaces: []string{namespace}, Pool: names.DefaultPool, Min: least, Max: ptr.To(most),
	}}
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// asking is a pod that asks for more than anybody has.
func asking(namespace string) *corev1.Pod {
	pod := fixture.Pod("asking").GPUs(1 << 20).Obj()
	pod.Namespace, pod.UID = namespace, types.UID("asking-"+namespace)
	return pod
}

// used is what a namespace has of its quota.
func used(q *Quotas, namespace string) int64 {
	excess := q.RequestFor(asking(namespace)).BlockingExcess()
	if excess == nil {
		return -1
	}
	return excess.Used
}

// TestRolesCountInTheQuotaOfTheirType: of pods that want to start together those count in the quota of a GPU type that have to get it, and with
// pods that may get it or another all that may.
func TestRolesCountInTheQuotaOfTheirType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		for name, most := range map[string]int64{"L40S": 8, "H100": 24} {
			of := quota("a", 0, most)
			of.Name, of.Spec.GPUType = strings.ToLower(name), name
			_, err := s.api.Create(t.Context(), object(t, of), metav1.CreateOptions{})
			s.must(err)
		}
		time.Sleep(time.Second)
		pod := func(accepted string, gpus int64) *corev1.Pod {
			pod := fixture.Pod(accepted).GPUs(gpus).Annotate(names.AnnotationGPUTypes, accepted).Obj()
			pod.Namespace, pod.UID = "a", types.UID(fmt.Sprint(accepted, gpus))
			return pod
		}
		node := func(gpuType string) *corev1.Node { return fixture.Node("n").GPUs(8, gpuType).Obj() }
		small, large, either := pod("L40S", 4), pod("H100", 24), pod("L40S,H100", 4)
		for _, tc := range []struct {
			pods []*corev1.Pod
			over bool
			of   *corev1.Pod
			shut []string
		}{
			{pods: []*corev1.Pod{small, large}, of: large},
			{pods: []*corev1.Pod{small, large, either}, of: either, shut: []string{"H100"}},
			{pods: []*corev1.Pod{small, large, either}, of: large},
			{pods: []*corev1.Pod{small, large, pod("L40S", 6)}, of: small, over: true, shut: []string{"L40S"}},
		} {
			r := s.RequestFor(tc.pods...)
			if over := r.BlockingExcess(); (over != nil) != tc.over {
				t.Errorf("%v: over %v", tc.pods, over)
			}
			for _, gpuType := range []string{"L40S", "H100"} {
				if got := r.ForPod(tc.of).ExcludesNode(node(gpuType)); got != slices.Contains(tc.shut, gpuType) {
					t.Errorf("pods of %d: nodes of %s are shut for %s: %t", len(tc.pods), gpuType, tc.of.Name, got)
				}
			}
		}
	})
}

// TestTheAccountKeepsStep with random changes: after each it says what a scheduler says that begins now, which has chosen nothing.
func TestTheAccountKeepsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := newSite(t), rand.New(rand.NewPCG(7, 0))
		defer s.stop()
		for i := range 3 {
			_, err := s.client.CoreV1().Nodes().Create(t.Context(), fixture.Node(fmt.Sprint("n", i)).GPUs(8, "T4").Obj(), metav1.CreateOptions{})
			s.must(err)
		}
		for _, namespace := range []string{"a", "b"} {
			_, err := s.api.Create(t.Context(), object(t, quota(namespace, 4, 8)), metav1.CreateOptions{})
			s.must(err)
		}
		for step := range 400 {
			s.change(r, step)
			time.Sleep(time.Second)
			for _, namespace := range []string{"a", "b"} {
				if got, want := used(s.Quotas, namespace), s.counted(namespace); got != want {
					t.Fatalf("after step %d namespace %s has %d, want %d", step, namespace, got, want)
				}
			}
		}
	})
}

// change does something at random to a pod, or makes one.
func (s *site) change(r *rand.Rand, step int) {
	s.Helper()
	list, err := s.client.CoreV1().Pods("").List(s.Context(), metav1.ListOptions{})
	s.must(err)
	if len(list.Items) == 0 || r.IntN(3) == 0 {
		pod := fixture.Pod(fmt.Sprint("p", step)).GPUs(1 + r.Int64N(4)).Obj()
		pod.Namespace, pod.UID = []string{"a", "b", "c"}[r.IntN(3)], types.UID(fmt.Sprint("p", step))
		_, err := s.client.CoreV1().Pods(pod.Namespace).Create(s.Context(), pod, metav1.CreateOptions{})
		s.must(err)
		return
	}
	pod := list.Items[r.IntN(len(list.Items))].DeepCopy()
	pods := s.client.CoreV1().Pods(pod.Namespace)
	switch r.IntN(5) {
	case 0:
		s.must(pods.Delete(s.Context(), pod.Name, metav1.DeleteOptions{}))
		return
	case 1:
		if pod.Spec.NodeName == "" { // it is chosen, and then bound after all, or not
			s.Reserve(pod, "n0")
			if r.IntN(2) == 0 {
				s.Unreserve(pod)
				return
			}
			pod.Spec.NodeName = "n0"
		}
	case 2:
		if pod.Spec.NodeName == "" {
			pod.Status.NominatedNodeName = []string{"", "n1"}[r.IntN(2)]
		}
	case 3:
		pod.Status.Phase = corev1.PodSucceeded
	case 4:
		pod.Spec.NodeName = fmt.Sprint("n", r.IntN(3))
	}
	_, err = pods.Update(s.Context(), pod, metav1.UpdateOptions{})
	s.must(err)
}

// counted is what a namespace has by the API server.
func (s *site) counted(namespace string) (sum int64) {
	s.Helper()
	list, err := s.client.CoreV1().Pods(namespace).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for i := range list.Items {
		pod := &list.Items[i]
		if (pod.Spec.NodeName != "" || pod.Status.NominatedNodeName != "") && pod.Status.Phase != corev1.PodSucceeded {
			sum += gpuquota.WholeGPUs(pod)
		}
	}
	return sum
}

// TestQuotasComeAndGo while pods run, and nodes change their type.
func TestQuotasComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		var told atomic.Int64
		s.OnChange(func() { told.Add(1) })
		node := fixture.Node("n").GPUs(8, "T4").Obj()
		_, err := s.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
		s.must(err)
		pod := fixture.Pod("p").GPUs(4).Obj()
		pod.Namespace, pod.UID, pod.Spec.NodeName = "a", "p", "n"
		_, err = s.client.CoreV1().Pods("a").Create(t.Context(), pod, metav1.CreateOptions{})
		s.must(err)
		time.Sleep(time.Second)
		if s.HasAny() || s.RequestFor(asking("a")) != nil {
			t.Error("there are quotas before one is made")
		}
		typed := quota("a", 0, 8)
		typed.Spec.GPUType = "T4"
		_, err = s.api.Create(t.Context(), object(t, typed), metav1.CreateOptions{})
		s.must(err)
		time.Sleep(time.Second)
		request := s.RequestFor(asking("a"))
		if !request.ExcludesNode(node) || request.BlockingExcess() != nil {
			t.Error("it does not shut the nodes of its type alone")
		}
		other := node.DeepCopy()
		other.Labels = fixture.Node("n").GPUs(8, "A100").Obj().Labels
		_, err = s.client.CoreV1().Nodes().Update(t.Context(), other, metav1.UpdateOptions{})
		s.must(err)
		time.Sleep(time.Second)
		eight := fixture.Pod("eight").GPUs(8).Obj()
		eight.Namespace, eight.UID = "a", "eight"
		if s.RequestFor(eight).ExcludesAny() {
			t.Error("the pod counts, though its node is of another type now")
		}
		s.must(s.api.Delete(t.Context(), "a", metav1.DeleteOptions{}))
		time.Sleep(time.Second)
		if request := s.RequestFor(asking("a")); request.ExcludesAny() {
			t.Error("what was deleted bounds")
		}
		if s.HasAny() || told.Load() != 2 {
			t.Errorf("there are quotas: %v; %d changes are told, want 2", s.HasAny(), told.Load())
		}
	})
}

// TestAStatusIsNoNews: gpu-controller writes it all the time, and whoever makes and deletes pods has it write. What a quota says is news.
func TestAStatusIsNoNews(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		var told atomic.Int64
		s.OnChange(func() { told.Add(1) })
		one := quota("a", 4, 8)
		_, err := s.api.Create(t.Context(), object(t, one), metav1.CreateOptions{})
		s.must(err)
		time.Sleep(time.Second)
		revision := s.Revision()
		s.RequestFor(asking("a")) // by which all is counted
		for used := range int64(5) {
			one.Status.Used = 1 + used
			_, err = s.api.Update(t.Context(), object(t, one), metav1.UpdateOptions{})
			s.must(err)
			time.Sleep(time.Second)
		}
		if told.Load() != 1 || s.Revision() != revision || s.outdated.Load() {
			t.Errorf("%d changes are told, want that it was made; it is another: %v; all is counted anew: %v", told.Load(), s.Revision() != revision, s.outdated.Load())
		}
		one.Spec.Max = ptr.To[int64](4)
		_, err = s.api.Update(t.Context(), object(t, one), metav1.UpdateOptions{})
		s.must(err)
		time.Sleep(time.Second)
		if excess := s.RequestFor(asking("a")).BlockingExcess(); told.Load() != 2 || excess == nil || excess.Max != 4 {
			t.Errorf("%d changes are told, want another; too little is there of %+v", told.Load(), excess)
		}
	})
}

// TestWhatIsPromisedIsKept until the pod is nominated, or the time for that is over.
func TestWhatIsPromisedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t)
		defer s.stop()
		_, err := s.client.CoreV1().Nodes().Create(t.Context(), fixture.Node("n").GPUs(8, "T4").Obj(), metav1.CreateOptions{})
		s.must(err)
		_, err = s.api.Create(t.Context(), object(t, quota("a", 8, 8)), metav1.CreateOptions{})
		s.must(err)
		pod := fixture.Pod("p").GPUs(4).Obj()
		pod.Namespace, pod.UID = "a", "p"
		_, err = s.client.CoreV1().Pods("a").Create(t.Context(), pod, metav1.CreateOptions{})
		s.must(err)
		time.Sleep(time.Second)
		s.HoldForNominees([]*corev1.Pod{pod}, map[types.UID]string{"p": "n"})
		borrower := fixture.Pod("b").GPUs(4).Obj()
		borrower.Namespace, borrower.UID = "b", "b"
		if got := used(s.Quotas, "a"); got != 4 || !s.RequestFor(borrower).DefersTo(pod) || !s.RequestFor(borrower).FindsNominees() {
			t.Errorf("%d GPUs count, want the 4 that are promised, and nobody borrows them", got)
		}
		if s.RequestFor(pod).DefersTo(pod) || s.RequestFor(pod).BlockingExcess() != nil {
			t.Error("what is promised stands against whom it is for")
		}
		time.Sleep(nomineeHoldTTL)
		if got := used(s.Quotas, "a"); got != 0 || s.RequestFor(borrower).DefersTo(pod) {
			t.Errorf("%d GPUs count though the pod is not nominated in time", got)
		}
	})
}

// TestWhoIsNotFollowedHasNone: a scheduler without an API server, or without quotas at all.
func TestWhoIsNotFollowedHasNone(t *testing.T) {
	for _, q := range []*Quotas{nil, New(nil)} {
		pod := asking("a")
		q.GatherBy(nil)
		q.OnChange(nil)
		q.Reserve(pod, "n")
		q.Unreserve(pod)
		q.HoldForNominees([]*corev1.Pod{pod}, map[types.UID]string{pod.UID: "n"})
		request := q.RequestFor(pod)
		if q.HasAny() || request != nil || request.BlockingExcess() != nil || request.IsEntitled() || request.StandingOf(pod) != gpuquota.Neutral || q.ShareQuota(pod, pod) {
			t.Error("there are some")
		}
	}
}

// TestAGangOfSeveralRoles asks for all of them at once, by pool.
func TestAGangOfSeveralRoles(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	if err := SeedInformer(factory, quota("a", 0, 8)); err != nil {
		t.Fatal(err)
	}
	q := New(nil)
	if err := q.addHandlers(factory, nil); err != nil {
		t.Fatal(err)
	}
	pods := []*corev1.Pod{fixture.Pod("launcher").Obj(), fixture.Pod("w0").GPUs(4).Obj(), fixture.Pod("w1").GPUs(4).Obj(), fixture.Pod("other").GPUs(8).Pool("other").Obj()}
	for _, pod := range pods {
		pod.Namespace, pod.UID = "a", types.UID(pod.Name)
	}
	if excess := q.RequestFor(pods...).BlockingExcess(); excess != nil {
		t.Errorf("8 of 8 are too many: %+v", excess)
	}
	more := append(slices.Clone(pods), asking("a"))
	if excess := q.RequestFor(more...).BlockingExcess(); excess == nil || excess.Asked != 8+1<<20 {
		t.Errorf("it is %+v that there is too little of, want all that the workers ask for", excess)
	}
	if q.RequestFor(pods[0]) != nil {
		t.Error("quotas say something of a pod without GPUs")
	}
}

// TestWhatCannotBeReadDoesNotCount: others may have changed the CRD.
func TestWhatCannotBeReadDoesNotCount(t *testing.T) {
	odd := object(t, quota("a", 0, 8))
	odd.Object["spec"] = map[string]any{"namespaces": "a", "max": "many"}
	out, err := transformQuota(odd)
	if one, ok := out.(*knownQuota); err != nil || !ok || one.Name != "a" || one.usable {
		t.Errorf("it is read as %+v, %v", out, err)
	}
}

package devices

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/testutil"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// followed returns a ledger that follows informers with the nodes, and the events that it writes.
func followed(t *testing.T, nodes ...*corev1.Node) (*Cache, *events.FakeRecorder) {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for _, n := range nodes {
		if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	recorder := events.NewFakeRecorder(10)
	handle, err := frameworkruntime.NewFramework(t.Context(), nil, nil,
		frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithEventRecorder(recorder))
	if err != nil {
		t.Fatal(err)
	}
	l := NewCache()
	for range 2 { // a second profile changes nothing
		if err := l.WatchCluster(context.Background(), handle); err != nil {
			t.Fatal(err)
		}
	}
	return l, recorder
}

func TestAMalformedInventoryIsToldOnceAndReplaced(t *testing.T) {
	bad := counted(4)
	bad.Annotations = map[string]string{names.AnnotationInventory: `{"version":1,"gpus":"` + strings.Repeat("x", 2000)}
	l, recorder := followed(t, bad)
	before, err := testutil.GetCounterMetricValue(malformedInventories)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got := len(l.AllocatorFor(bad.DeepCopy()).Inventory().GPUs); got != 4 {
			t.Errorf("%d cards, want the 4 that allocatable tells", got)
		}
		l.NodeView(info(bad.DeepCopy()))
	}
	after, _ := testutil.GetCounterMetricValue(malformedInventories)
	if after-before != 1 || len(recorder.Events) != 1 {
		t.Fatalf("told by %v counts and %d events, want one of each", after-before, len(recorder.Events))
	}
	if event := <-recorder.Events; !strings.Contains(event, "MalformedInventory") || len(event) > 1024 {
		t.Errorf("event of %d bytes: %s", len(event), event)
	}
	worse := bad.DeepCopy()
	worse.Annotations[names.AnnotationInventory] = "[]"
	l.AllocatorFor(worse)
	if len(recorder.Events) != 1 {
		t.Errorf("%d events for another malformed inventory, want one", len(recorder.Events))
	}
}

// TestMoreCardsThanCanBeToldApartAreTold: those beyond are given to nobody, which looks like a node that is full.
func TestMoreCardsThanCanBeToldApartAreTold(t *testing.T) {
	many := counted(gpu.MaxGPUs + 16)
	l, recorder := followed(t, many)
	if got := len(l.AllocatorFor(many).Inventory().GPUs); got != gpu.MaxGPUs {
		t.Errorf("%d cards, want %d", got, gpu.MaxGPUs)
	}
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want 1", len(recorder.Events))
	}
	event := <-recorder.Events
	for _, part := range []string{"Warning TooManyGPUs", "offers 80 GPUs", "16 stay idle", "time-slicing", "fewer of each"} {
		if !strings.Contains(event, part) {
			t.Errorf("the event lacks %q: %s", part, event)
		}
	}
	l.AllocatorFor(counted(gpu.MaxGPUs))
	if len(recorder.Events) != 0 {
		t.Errorf("as many as can be told apart are told of: %s", <-recorder.Events)
	}
}

func TestNothingIsKeptOfWhatIsGone(t *testing.T) {
	n := node(t, 8)
	l, _ := followed(t, n)
	var pods []*corev1.Pod
	for i := range 8 {
		pods = append(pods, reserve(t, l, pod(fmt.Sprint("p", i), 1), info(n, pods...)))
	}
	l.podGone(pods[0])
	l.podGone(cache.DeletedFinalStateUnknown{Obj: pods[1]})
	l.podReplaced(pods[2], pod("successor", 1).Obj())
	l.podReplaced(pods[3], pods[3])
	l.ForgetPod(pods[4].UID)
	if got, _ := l.size(); got != 4 {
		t.Errorf("%d pods are kept, want the 4 that stayed", got)
	}
	for _, p := range pods {
		l.podGone(p)
	}
	l.nodeGone(n)
	l.NodeView(info(n)) // it is in the informer
	gone := n.DeepCopy()
	gone.Name = "gone"
	l.NodeView(info(gone)) // the snapshot still has it, the informer has not
	l.AllocatorFor(gone)
	pods[0].Spec.NodeName = "gone"
	l.ForgetPod(types.UID("never seen"))
	if gotPods, gotNodes := l.size(); gotPods != 0 || gotNodes != 1 {
		t.Errorf("%d pods and %d nodes are kept, want none and the one in the informer", gotPods, gotNodes)
	}
}

// size returns how many pods and nodes the ledger holds.
func (l *Cache) size() (pods, nodes int) {
	l.mu.RLock()
	pods = len(l.pods)
	l.mu.RUnlock()
	l.nodes.Range(func(any, any) bool { nodes++; return true })
	return pods, nodes
}

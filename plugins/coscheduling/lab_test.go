package coscheduling

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	listersv1 "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/devices"
	pkggang "g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gang/follow"
	"g8s.host/gpu-scheduler/pkg/gang/phase"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gang/queue"
	"g8s.host/gpu-scheduler/pkg/optional"
	"g8s.host/gpu-scheduler/pkg/preemption"
	"g8s.host/gpu-scheduler/test/fixture"
)

// lab is the plugin with what it reads in memory, and what the framework does around it: pods that it holds wait here.
type lab struct {
	testing.TB
	*Plugin
	infos []fwk.NodeInfo
	// mu guards held and what was decided of those in it: decisions come from timers, too.
	mu        sync.Mutex
	held      []*heldPod
	activated []string
	// nominated are pods for which room is kept, by node.
	nominated map[string][]fwk.PodInfo
	// store has the nodes that the plugin knows by name.
	store cache.Indexer
	// client is of the API server.
	client *fake.Clientset
	// others are the filters of other plugins, nil for none.
	others *filters
	// told is what PostFilter said last.
	told string
	// onActivate, if there is one, is called when pods are queued.
	onActivate func()
}

// handle is what the plugin asks of the framework.
type handle struct {
	fwk.Handle
	*lab
}

func (h handle) IterateOverWaitingPods(visit func(fwk.WaitingPod)) {
	h.mu.Lock()
	all := slices.Clone(h.held)
	h.mu.Unlock()
	for _, held := range all {
		visit(held)
	}
}

func (h handle) SnapshotSharedLister() fwk.SharedLister    { return snapshot{lab: h.lab} }
func (h handle) ClientSet() kubernetes.Interface           { return h.client }
func (h handle) EventRecorder() events.EventRecorderLogger { return &events.FakeRecorder{} }
func (h handle) GetWaitingPod(uid types.UID) fwk.WaitingPod {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.held {
		if held.pod.UID == uid && !held.allowed && held.refused == "" {
			return held
		}
	}
	return nil
}

// snapshot is the nodes as the scheduler sees them.
type snapshot struct {
	fwk.SharedLister
	*lab
}

func (s snapshot) NodeInfos() fwk.NodeInfoLister { return nodeInfos{s.lab} }

type nodeInfos struct{ *lab }

func (n nodeInfos) List() ([]fwk.NodeInfo, error)                                 { return n.infos, nil }
func (n nodeInfos) HavePodsWithAffinityList() ([]fwk.NodeInfo, error)             { return nil, nil }
func (n nodeInfos) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) { return nil, nil }
func (n nodeInfos) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}
func (n nodeInfos) Get(string) (fwk.NodeInfo, error) { return nil, nil }

func (h handle) NominatedPodsForNode(node string) []fwk.PodInfo { return h.nominated[node] }

func (h handle) Activate(_ klog.Logger, pods map[string]*corev1.Pod) {
	h.mu.Lock()
	for name := range pods {
		h.activated = append(h.activated, name)
	}
	h.mu.Unlock()
	if h.onActivate != nil {
		h.onActivate()
	}
}

// tried are the pods that were queued, by a timer, too.
func (l *lab) tried() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(slices.Values(l.activated))
}

// forget makes as if no pod had been queued.
func (l *lab) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.activated = nil
}

// heldPod waits in Permit.
type heldPod struct {
	lab     *lab
	pod     *corev1.Pod
	allowed bool
	refused string
}

func (h *heldPod) GetPod() *corev1.Pod           { return h.pod }
func (h *heldPod) GetPendingPlugins() []string   { return []string{Name} }
func (h *heldPod) Allow(string)                  { h.decide(true, "") }
func (h *heldPod) Preempt(_, reason string) bool { return h.Reject("", reason) }
func (h *heldPod) Reject(_, reason string) bool {
	h.decide(false, reason)
	h.lab.Unreserve(h.lab.Context(), nil, h.pod, h.pod.Spec.NodeName)
	return true
}

func (h *heldPod) decide(allowed bool, refused string) {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	h.allowed, h.refused = allowed, refused
}

// hold has the framework know of a pod that waits.
func (l *lab) hold(pod *corev1.Pod) *heldPod {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := &heldPod{lab: l, pod: pod}
	l.held = append(l.held, held)
	return held
}

// labGroups are groups that no informer fills.
func labGroups() follow.Groups {
	store := func() cache.SharedIndexInformer {
		return cache.NewSharedIndexInformer(&optional.Kind{}, &unstructured.Unstructured{}, 0, cache.Indexers{})
	}
	out := follow.Groups{PodGroups: store(), Workloads: map[string][]follow.Workloads{}}
	for _, kind := range pkggang.Kinds() {
		out.Workloads[kind.Name] = append(out.Workloads[kind.Name], follow.Workloads{Informer: store(), Served: func() bool { return true }})
	}
	return out
}

// labPools are pools that no informer fills.
func labPools(t testing.TB) preemption.Pools {
	t.Helper()
	pools, err := preemption.NewPools(informers.NewSharedInformerFactory(fake.NewClientset(), 0), follow.NoClient)
	if err != nil {
		t.Fatal(err)
	}
	return pools
}

// labFinished are members that have succeeded, which no informer fills.
func labFinished(t testing.TB) follow.FinishedMembers {
	t.Helper()
	finished, err := follow.WatchFinished(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
	if err != nil {
		t.Fatal(err)
	}
	return finished
}

// newLab has nodes with 8 cards each.
func newLab(t testing.TB, nodes int) *lab {
	t.Helper()
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	l := &lab{TB: t, client: fake.NewClientset(), store: indexer}
	l.Plugin = &Plugin{
		handle:      handle{lab: l},
		groups:      labGroups(),
		pools:       labPools(t),
		pods:        cache.NewIndexer(cache.MetaNamespaceKeyFunc, podIndexers),
		nodes:       listersv1.NewNodeLister(indexer),
		finished:    labFinished(t),
		deviceCache: devices.NewCache(),
		now:         time.Now,
		searchLimit: searchBudget,
		departures:  &preemption.Departures{}, preemptions: &preemption.Notices{}, resumptions: &preemption.Resumptions{}, queuePositions: &queue.Positions{},
	}
	l.gangs = l.newGangs()
	for i := range nodes {
		node := fixture.Node(fmt.Sprint("n", i)).GPUs(8, "T4").Obj()
		l.must(indexer.Add(node))
		l.infos = append(l.infos, nodeInfo(node))
	}
	return l
}

// newGangs has no state of any gang, and holds each change of phase against the table of phases.
func (l *lab) newGangs() *gangs {
	r := l.Plugin.newGangs()
	r.onPhaseChange = func(g gang, from, to phase.Phase) {
		if !from.MayPrecede(to) {
			l.Errorf("gang %s/%s: %s follows %s, which the table of phases does not have", g.group, g.owner, to, from)
		}
	}
	return r
}

func (l *lab) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// group makes a PodGroup of a spec.
func (l *lab) group(name string, spec map[string]any, change ...func(*unstructured.Unstructured)) {
	l.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetNamespace("ns")
	object.SetName(name)
	for _, change := range change {
		change(object)
	}
	l.must(l.groups.PodGroups.GetIndexer().Add(podgroup.Read(object)))
}

// member makes a pod with 8 GPUs of gang g that a Job made.
func (l *lab) member(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	l.Helper()
	pod := fixture.Pod(name).GPUs(8).Label(names.LabelPodGroup, "g").Obj()
	pod.Namespace, pod.UID = "ns", types.UID(name)
	ownedBy("job")(pod)
	for _, change := range change {
		change(pod)
	}
	l.must(l.pods.Add(pod))
	return pod
}

func ownedBy(owner types.UID) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: string(owner), UID: owner, Controller: ptr.To(true)}}
	}
}

func boundTo(node string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.NodeName = node }
}

func leaving(pod *corev1.Pod) { pod.DeletionTimestamp = ptr.To(metav1.Now()) }

// try takes a pod through PreFilter and Permit, on a node of its own. It returns why it is turned away, and whether it
// waits.
func (l *lab) try(pod *corev1.Pod) (reason string, waits bool) {
	l.Helper()
	if _, status := l.PreFilter(l.Context(), framework.NewCycleState(), pod, l.infos); status.IsRejected() {
		if status.Code() != fwk.UnschedulableAndUnresolvable {
			l.Errorf("PreFilter: %v, which lets others be evicted", status)
		}
		return status.Message(), false
	}
	status, timeout := l.Permit(l.Context(), framework.NewCycleState(), pod, "n0")
	if status.IsWait() {
		if timeout <= 0 {
			l.Errorf("%s waits for %s", pod.Name, timeout)
		}
		l.hold(pod)
		return "", true
	}
	return status.Message(), false
}

func nodeInfo(node *corev1.Node, pods ...*corev1.Pod) fwk.NodeInfo {
	info := framework.NewNodeInfo(pods...)
	info.SetNode(node)
	return info
}

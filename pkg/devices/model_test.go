package devices

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

// tenant is a pod on a machine, with the cards that it was given, which are the truth.
type tenant struct {
	pod    *corev1.Pod // as in the NodeInfo
	demand gpu.Demand
	cards  map[string]given // by UUID, nil for a pod that another scheduler placed
	// chosen: the ledger keeps its choice. annotated: the pod names its cards.
	chosen, annotated bool
}

// given is what a tenant has of a card.
type given struct {
	whole bool
	mib   int64
}

// machine is a node, as it is and as the scheduler's cache has it.
type machine struct {
	name     string
	cards    []gpu.GPU
	reported bool // by annotation; else the cards are counted, and have other names
	up       bool
	info     *framework.NodeInfo
	tenants  []*tenant
}

// world is a few machines, a ledger, and what the steps have counted.
type world struct {
	t        *testing.T
	r        *rand.Rand
	ledger   *Cache
	store    cache.Store
	machines []*machine
	pods     int
	// deleted are pods that left while they were being bound: that is about to fail.
	deleted []types.UID

	accepted, refused, nominated int
}

// TestLedgerAgreesWithAModel takes a few nodes through a million random steps of what befalls a scheduler: pods are
// reserved, bound, unreserved, nominated and deleted, also while they are being bound, other schedulers place theirs, cards turn bad and good, agents
// lose their inventories and find them again, nodes vanish and return, and the scheduler restarts. After each step the
// ledger's view of the node is held against a count of all its pods. No card is ever given twice, and at the end, when
// all pods are gone, nothing is left.
func TestLedgerAgreesWithAModel(t *testing.T) {
	steps := 1_000_000
	if testing.Short() {
		steps = 50_000
	}
	w := newWorld(t)
	for step := 0; step < steps && !t.Failed(); step++ {
		m := w.machines[w.r.IntN(len(w.machines))]
		w.step(m)
		if w.check(m); t.Failed() {
			t.Logf("at step %d", step)
		}
	}
	for _, m := range w.machines {
		for len(m.tenants) > 0 && !t.Failed() {
			w.remove(m)
			w.check(m)
		}
	}
	for len(w.deleted) > 0 {
		w.failLate()
	}
	if pods, nodes := w.ledger.size(); pods != 0 || nodes > len(w.machines) {
		t.Errorf("%d pods and %d nodes are kept when all pods are gone", pods, nodes)
	}
	t.Logf("%d reserved, %d refused, %d asked beside nominated pods", w.accepted, w.refused, w.nominated)
	if least := steps / 50; w.accepted < least || w.refused < least || w.nominated < least {
		t.Error("the draw is too easy or too hard to show anything")
	}
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(3, 5)), store: cache.NewStore(cache.MetaNamespaceKeyFunc)}
	for i := range 3 {
		m := &machine{name: fmt.Sprintf("n%d", i), reported: true, up: true}
		reserved := []int64{640, 0, 2000, 24576, 90000, 512}
		for card, memory := range []int64{46068, 81920, 81920, 24576, 46068, 81920}[:4+i] {
			m.cards = append(m.cards, gpu.GPU{UUID: fmt.Sprintf("GPU-%d-%d", i, card), Index: card, MemoryMiB: memory, ReservedMiB: &reserved[card], Health: gpu.Healthy})
		}
		w.machines = append(w.machines, m)
	}
	w.restart()
	return w
}

func (w *world) step(m *machine) {
	switch n := w.r.IntN(1000); {
	case n < 300:
		w.place(m)
	case n < 600:
		w.remove(m)
	case n < 780:
		w.bind(m)
	case n < 810:
		w.fail(m)
	case n < 820:
		w.deleteEarly(m)
	case n < 830:
		w.failLate()
	case n < 840:
		w.foreign(m)
	case n < 900:
		w.nominate(m)
	case n < 960:
		card := &m.cards[w.r.IntN(len(m.cards))]
		card.Health = map[string]string{gpu.Healthy: "Xid79", "Xid79": gpu.Healthy}[card.Health]
		w.refresh(m)
	case n < 980:
		m.reported = !m.reported
		w.refresh(m)
	case n < 998:
		w.flap(m)
	default:
		w.restart()
	}
}

// place reserves cards for a pod, after a dry run.
func (w *world) place(m *machine) {
	if !m.up {
		return
	}
	pod, demand := w.newPod()
	dry, dryReason := w.ledger.NodeView(m.info).Allocate(&demand)
	reason := w.ledger.Reserve(pod, &demand, m.info)
	if reason != dryReason {
		w.t.Errorf("Reserve says %s, the dry run %s", reason.Detail(), dryReason.Detail())
	}
	if len(demand.Containers) == 1 && reason.IsZero() != m.fits(&demand) {
		w.t.Errorf("%s for %+v: the model says %v", reason.Detail(), demand, m.fits(&demand))
	}
	if !reason.IsZero() {
		w.refused++
		return
	}
	w.accepted++
	choice, _ := w.ledger.ChoiceOf(pod.UID)
	if want := w.ledger.AllocatorFor(m.info.Node()).BuildAssignment(&demand, &dry); !reflect.DeepEqual(want, choice.Assignment) {
		w.t.Errorf("the dry run chooses %v, Reserve %v", want, choice.Assignment)
	}
	w.reserved(m, pod, demand)
}

// reserved puts a pod where the ledger has chosen cards for it.
func (w *world) reserved(m *machine, pod *corev1.Pod, demand gpu.Demand) {
	choice, _ := w.ledger.ChoiceOf(pod.UID)
	tn := &tenant{demand: demand, cards: cardsGiven(&demand, choice.Assignment), chosen: true}
	w.checkChoice(m, tn)
	w.enter(m, tn, pod)
}

func (w *world) newPod() (*corev1.Pod, gpu.Demand) {
	w.pods++
	pod := fixture.RandomPod(w.r, fmt.Sprintf("p%d", w.pods))
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		w.t.Fatal(err)
	}
	return pod, demand
}

// enter puts a pod on a machine, as the scheduler assumes it.
func (w *world) enter(m *machine, tn *tenant, pod *corev1.Pod) {
	pod.Spec.NodeName = m.name
	tn.pod = pod
	m.info.AddPod(pod)
	m.tenants = append(m.tenants, tn)
}

// foreign is a pod that another scheduler placed, wherever it liked to.
func (w *world) foreign(m *machine) {
	pod, demand := w.newPod()
	w.enter(m, &tenant{demand: demand}, pod)
}

// bind has the API server's answer arrive: the pod names its cards from then on.
func (w *world) bind(m *machine) {
	tn := w.anyOf(m, func(tn *tenant) bool { return tn.chosen && !tn.annotated })
	if tn == nil {
		return
	}
	devices, _ := w.ledger.ChosenGPUs(tn.pod.UID, m.name)
	bound := tn.pod.DeepCopy()
	bound.Annotations[names.AnnotationGPUDevices] = devices
	w.leave(m, tn)
	m.info.AddPod(bound)
	tn.pod, tn.annotated = bound, true
}

// nominate asks about a node with pods that are to come there. Whoever fits beside them leaves them their cards.
func (w *world) nominate(m *machine) {
	if !m.up {
		return
	}
	w.nominated++
	expected := m.info.Snapshot()
	var coming []*corev1.Pod
	for range 1 + w.r.IntN(3) {
		pod, _ := w.newPod()
		coming = append(coming, pod)
		expected.AddPodInfo(podInfo(w.t, pod))
	}
	first := slices.MinFunc(coming, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(podPriority(b), podPriority(a)), cmp.Compare(a.UID, b.UID))
	})
	// Where cards are held that have no name, a card that is shared again can be one more to keep clear of them.
	hadPlace := m.count().unknown == gpu.Unknown{} && w.hasPlace(m, first)
	w.checkNominated(m, expected, coming)
	pod, demand := w.newPod()
	if reason := w.ledger.Reserve(pod, &demand, expected); !reason.IsZero() {
		return
	}
	w.reserved(m, pod, demand)
	if hadPlace && !w.hasPlace(m, first) {
		w.t.Errorf("%s: pod %s took the place of %s, which is nominated", m.name, pod.Name, first.Name)
	}
}

func (w *world) hasPlace(m *machine, pod *corev1.Pod) bool {
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		w.t.Fatal(err)
	}
	_, reason := w.ledger.NodeView(m.info).Allocate(&demand)
	return reason.IsZero()
}

// flap has a node vanish with its pods on it, or come back.
func (w *world) flap(m *machine) {
	if m.up = !m.up; m.up {
		w.refresh(m)
		return
	}
	gone := m.node()
	if err := w.store.Delete(gone); err != nil {
		w.t.Fatal(err)
	}
	w.ledger.nodeGone(gone)
	m.info.RemoveNode()
}

// refresh reports the node's cards as they are.
func (w *world) refresh(m *machine) {
	if !m.up {
		return
	}
	node := m.node()
	if err := w.store.Update(node); err != nil {
		w.t.Fatal(err)
	}
	m.info.SetNode(node)
}

// restart forgets everything but what the API server has: nodes, and pods that are bound.
func (w *world) restart() {
	w.ledger = NewCache()
	w.ledger.sink.cluster.Store(&cluster{nodes: w.store})
	w.deleted = nil
	for _, m := range w.machines {
		m.tenants = slices.DeleteFunc(m.tenants, func(tn *tenant) bool { return tn.chosen && !tn.annotated })
		m.info = framework.NewNodeInfo()
		for _, tn := range m.tenants {
			tn.chosen = false
			m.info.AddPod(tn.pod)
		}
		w.refresh(m)
	}
}

package gpu

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// modelPod is a pod as the model sees it: for each card, whether it has it whole and how much memory of it,
// in plain arrays. era tells under which inventory the cards were named.
type modelPod struct {
	demand     *Demand
	assignment string // as on the pod; "" for a pod that another scheduler placed
	era        int
	whole      [modelCards]bool
	mib        [modelCards]int64
	holding    Holding // what was added to Used; not looked at by the model
}

const modelCards = 8

// model is one node through its life. Truth is the list of pods; everything else is counted from it again
// at every step, by loops that share nothing with the package.
type model struct {
	t        *testing.T
	r        *rand.Rand
	pods     []*modelPod
	healthy  [modelCards]bool
	memory   [modelCards]int64
	reserved [modelCards]int64
	boards   [2]Inventory // reported, and derived
	era      int
	known    Topologies
	subject  *Allocator
	used     Used
	accepted int
	refused  int
}

// TestUsedAgreesWithAModel takes a node through a million random steps: pods come (one container, many,
// whole, shared, both), go, are reserved and unreserved; foreign pods come and go; cards turn bad and good;
// the scheduler restarts and reads annotations; the inventory is lost and found again, so that all cards
// change their names. At each step no card is given twice, none leaks, and there is a place exactly when
// the model counts one.
func TestUsedAgreesWithAModel(t *testing.T) {
	steps := 1_000_000
	if testing.Short() {
		steps = 50_000
	}
	m := newModel(t)
	for step := 0; step < steps && !t.Failed(); step++ {
		m.step()
		m.check()
	}
	t.Logf("%d placed, %d refused", m.accepted, m.refused)
	if m.accepted < steps/20 || m.refused < steps/20 {
		t.Errorf("%d placed and %d refused: the draw is too easy or too hard to show anything", m.accepted, m.refused)
	}
}

func newModel(t *testing.T) *model {
	m := &model{t: t, r: rand.New(rand.NewPCG(8, 15))}
	m.memory = [modelCards]int64{46068, 46068, 81920, 81920, 81920, 24576, 24576, 0}
	m.reserved = [modelCards]int64{640, 0, 1639, 81920, 640, 90000, 4000, 512}
	m.boards[0] = hybridCubeMesh()
	m.boards[1] = inventory(modelCards, linked(25, 0, 1, 2, 3, 4, 5, 6, 7))
	m.boards[1].Derived = true
	for card := range modelCards {
		m.healthy[card] = true
		m.boards[0].GPUs[card].MemoryMiB = m.memory[card]
		m.boards[1].GPUs[card].MemoryMiB = m.memory[card]
		m.boards[0].GPUs[card].ReservedMiB = &m.reserved[card]
		m.boards[1].GPUs[card].ReservedMiB = &m.reserved[card]
		m.boards[1].GPUs[card].UUID = fmt.Sprintf("index-%d", card)
	}
	m.restart()
	return m
}

func (m *model) step() {
	switch n := m.r.IntN(1000); {
	case n < 400:
		m.place()
	case n < 800:
		m.removeAny()
	case n < 850:
		m.foreign()
	case n < 900:
		m.unreserve()
	case n < 980:
		card := m.r.IntN(modelCards)
		m.healthy[card] = !m.healthy[card]
		m.refresh()
	case n < 990:
		m.restart()
	default:
		m.era = 1 - m.era
		m.restart()
	}
}

// refresh makes a new allocator, as a change of the node does. Positions stay, so holdings do.
func (m *model) refresh() {
	board := m.boards[m.era]
	board.GPUs = append([]GPU(nil), board.GPUs...)
	for card := range modelCards {
		if !m.healthy[card] {
			board.GPUs[card].Health = "Xid79"
		}
	}
	subject, err := NewAllocator(board, &m.known)
	if err != nil {
		m.t.Fatal(err)
	}
	m.subject = subject
}

// restart forgets everything but the pods and their annotations.
func (m *model) restart() {
	m.refresh()
	m.used = Used{}
	for _, pod := range m.pods {
		pod.holding = UnknownHolding(pod.demand)
		if pod.assignment != "" {
			assignment, err := ParseAssignment(pod.assignment)
			if err != nil {
				m.t.Fatal(err)
			}
			if pod.holding, err = m.subject.Resolve(pod.demand, assignment); err != nil {
				m.t.Fatal(err)
			}
		}
		m.used.Add(&pod.holding)
	}
}

func (m *model) place() {
	demand := m.demand()
	dry, dryReason := m.subject.Allocate(&m.used, demand)
	allocation, reason := m.subject.Allocate(&m.used, demand)
	if dry != allocation || dryReason != reason {
		m.t.Errorf("a dry run says %+v, %+v; the real one %+v, %+v", dry, dryReason, allocation, reason)
	}
	if len(demand.Containers) == 1 && reason.IsZero() != m.fits(demand) {
		m.t.Errorf("%+v: got %v (%s), the model says %v", demand, reason.Code, reason.Detail(), m.fits(demand))
	}
	if !reason.IsZero() {
		m.refused++
		return
	}
	m.accepted++
	m.checkChoice(demand, &allocation)
	text, err := m.subject.BuildAssignment(demand, &allocation).Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	pod := &modelPod{demand: demand, assignment: text, era: m.era, holding: allocation.Holding}
	for card := range modelCards {
		pod.whole[card] = allocation.Whole.Has(card)
		pod.mib[card] = allocation.MemoryOn(card)
	}
	m.used.Add(&pod.holding)
	m.pods = append(m.pods, pod)
}

func (m *model) demand() *Demand {
	var d *Demand
	switch m.r.IntN(10) {
	case 0, 1, 2, 3:
		d = whole(1 + m.r.Int64N(5))
	case 4, 5, 6, 7:
		d = share(1+m.r.Int64N(3), 1+m.r.Int64N(30000))
	default:
		d = randomDemand(m.r, m.r.IntN(3) == 0)
		for len(d.Containers) < 2 {
			d = randomDemand(m.r, true)
		}
	}
	if m.r.IntN(4) == 0 {
		d.MemoryMinMiB = m.r.Int64N(90000)
	}
	return d
}

func (m *model) foreign() {
	pod := &modelPod{demand: whole(1 + m.r.Int64N(3))}
	if m.r.IntN(2) == 0 {
		pod.demand = share(1+m.r.Int64N(2), 1+m.r.Int64N(20000))
	}
	pod.holding = UnknownHolding(pod.demand)
	m.used.Add(&pod.holding)
	m.pods = append(m.pods, pod)
}

// unreserve takes cards and gives them back, as a failed bind does.
func (m *model) unreserve() {
	before := m.used
	if allocation, reason := m.subject.Allocate(&m.used, m.demand()); reason.IsZero() {
		m.used.Add(&allocation.Holding)
		if err := m.used.Remove(&allocation.Holding); err != nil {
			m.t.Error(err)
		}
	}
	if m.used != before {
		m.t.Errorf("reserve and unreserve leave %+v, want %+v", m.used, before)
	}
}

func (m *model) removeAny() {
	if len(m.pods) == 0 {
		return
	}
	i := m.r.IntN(len(m.pods))
	if err := m.used.Remove(&m.pods[i].holding); err != nil {
		m.t.Error(err)
	}
	m.pods[i] = m.pods[len(m.pods)-1]
	m.pods = m.pods[:len(m.pods)-1]
}

// counted is what the model counts on one card, and beside the cards.
type counted struct {
	whole, shared      [modelCards]int64
	unnamed, unnamedBy int64 // cards held whole, and cards shared
	unnamedMiB         int64
}

func (m *model) count() counted {
	var c counted
	for _, pod := range m.pods {
		var cards, shared, most int64
		for card := range modelCards {
			if pod.whole[card] {
				cards++
			}
			if pod.mib[card] > 0 {
				shared++
				most = max(most, pod.mib[card])
			}
		}
		if pod.assignment == "" {
			cards, shared = pod.demand.Whole, pod.demand.Shared
			if shared > 0 {
				most = pod.demand.ShareMiB
			}
		}
		if pod.assignment == "" || pod.era != m.era {
			c.unnamed += cards
			c.unnamedBy += shared
			c.unnamedMiB += most
			continue
		}
		for card := range modelCards {
			if pod.whole[card] {
				c.whole[card]++
			}
			c.shared[card] += pod.mib[card]
		}
	}
	return c
}

// fits tells whether there is a place for a pod of one container.
func (m *model) fits(d *Demand) bool {
	c := m.count()
	var free, open, closed int64
	for card := range modelCards {
		if !m.healthy[card] || m.memory[card] < d.MemoryMinMiB || c.whole[card] > 0 {
			continue
		}
		roomy := m.memory[card]-m.reserved[card]-c.shared[card]-c.unnamedMiB >= d.ShareMiB
		switch {
		case c.shared[card] == 0:
			free++
			if roomy {
				closed++
			}
		case roomy:
			open++
		}
	}
	if d.Shared > 0 {
		return open+max(closed-c.unnamed, 0) >= d.Shared
	}
	return free-c.unnamed-c.unnamedBy >= d.Whole
}

// checkChoice looks at each card that was chosen.
func (m *model) checkChoice(d *Demand, allocation *Allocation) {
	c := m.count()
	for card := range modelCards {
		whole, mib := allocation.Whole.Has(card), allocation.MemoryOn(card)
		if !whole && mib == 0 {
			continue
		}
		switch {
		case !m.healthy[card]:
			m.t.Errorf("card %d is given and unhealthy", card)
		case m.memory[card] < d.MemoryMinMiB:
			m.t.Errorf("card %d is given, with %d MiB of %d asked", card, m.memory[card], d.MemoryMinMiB)
		case c.whole[card] > 0:
			m.t.Errorf("card %d is given twice", card)
		case whole && (mib > 0 || c.shared[card] > 0):
			m.t.Errorf("card %d is given whole and shared", card)
		case c.shared[card]+mib+c.unnamedMiB > m.memory[card]-m.reserved[card] && mib > 0:
			m.t.Errorf("card %d has %d MiB, of which %d are reserved, and gives %d", card, m.memory[card], m.reserved[card], c.shared[card]+mib)
		}
	}
	if got := int64(allocation.Whole.Len()); got != d.wholePeak() {
		m.t.Errorf("%+v got %d cards", d, got)
	}
}

// check compares what is in use with the model.
func (m *model) check() {
	c := m.count()
	for card := range modelCards {
		if c.whole[card] > 1 || c.whole[card] > 0 && c.shared[card] > 0 {
			m.t.Errorf("card %d is held by %d pods whole and with %d MiB", card, c.whole[card], c.shared[card])
		}
		if m.used.WholeGPUs().Has(card) != (c.whole[card] > 0) || m.used.MemoryOn(card) != c.shared[card] {
			m.t.Errorf("card %d: whole %v, %d MiB; the model says %d, %d MiB",
				card, m.used.WholeGPUs().Has(card), m.used.MemoryOn(card), c.whole[card], c.shared[card])
		}
		if m.used.SharedGPUs().Has(card) != (c.shared[card] > 0) {
			m.t.Errorf("card %d is shared: %v, with %d MiB", card, m.used.SharedGPUs().Has(card), c.shared[card])
		}
	}
	if want := (Unknown{Whole: c.unnamed, Shared: c.unnamedBy, ShareMiB: c.unnamedMiB}); m.used.UnknownUse() != want {
		m.t.Errorf("unknown is %+v, the model says %+v", m.used.UnknownUse(), want)
	}
	if m.used.conflicts() != 0 {
		m.t.Errorf("conflicts on %v", m.used.conflicts())
	}
}

package devices

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// count is what the model counts on a machine: by card, and of pods whose cards have no name there.
type count struct {
	whole   map[string]int
	mib     map[string]int64
	unknown gpu.Unknown
}

// cardsGiven sums up an assignment: main containers hold their cards together, init containers before them.
func cardsGiven(d *gpu.Demand, assignment gpu.Assignment) map[string]given {
	cards := map[string]given{}
	for _, lifetime := range []gpu.Lifetime{gpu.Main, gpu.Init} {
		now := map[string]int64{}
		for _, container := range d.Containers {
			if container.Lifetime != lifetime {
				continue
			}
			for _, device := range assignment[container.Name] {
				now[device.UUID] += device.MemoryMiB
				cards[device.UUID] = given{device.MemoryMiB == 0, max(cards[device.UUID].mib, now[device.UUID])}
			}
		}
	}
	return cards
}

// node is the machine as the API server has it.
func (m *machine) node() *corev1.Node {
	node := counted(len(m.cards))
	node.Name = m.name
	if m.reported {
		text, err := (&gpu.Inventory{GPUs: m.cards}).Encode()
		if err != nil {
			return nil
		}
		node.Annotations = map[string]string{names.AnnotationInventory: text}
	}
	return node
}

// uuids are the names that the machine's cards have now.
func (m *machine) uuids() []string {
	uuids := make([]string, len(m.cards))
	for i := range uuids {
		uuids[i] = m.cards[i].UUID
		if !m.reported {
			uuids[i] = "index-" + string(rune('0'+i))
		}
	}
	return uuids
}

// healthy and memory tell what a node says of a card: one that only counts its cards tells neither.
func (m *machine) healthy(card int) bool { return !m.reported || m.cards[card].Health == gpu.Healthy }

func (m *machine) memory(card int) int64 {
	if !m.reported {
		return 0
	}
	return m.cards[card].MemoryMiB
}

// shareable tells what shares can hold of a card, which is nothing where the driver is said to keep more than there is.
func (m *machine) shareable(card int) int64 {
	if !m.reported {
		return 0
	}
	return m.cards[card].MemoryMiB - *m.cards[card].ReservedMiB
}

// count adds up all pods of a machine.
func (m *machine) count() count {
	c := count{whole: map[string]int{}, mib: map[string]int64{}}
	uuids := m.uuids()
	for _, tn := range m.tenants {
		if !tn.chosen && !tn.annotated {
			c.addUnnamed(&tn.demand)
			continue
		}
		var most int64
		for uuid, card := range tn.cards {
			switch known := slices.Contains(uuids, uuid); {
			case known && card.whole:
				c.whole[uuid]++
			case known:
				c.mib[uuid] += card.mib
			case card.whole:
				c.unknown.Whole++
			default:
				c.unknown.Shared++
				most = max(most, card.mib)
			}
		}
		c.unknown.ShareMiB += most
	}
	return c
}

// addUnnamed counts a pod that does not say which cards it has as the worst that its request allows.
func (c *count) addUnnamed(d *gpu.Demand) {
	var main, early, asking int64
	for _, container := range d.Containers {
		if container.Lifetime == gpu.Init {
			early = max(early, container.Whole+container.Shared)
		} else {
			main += container.Whole + container.Shared
		}
		asking++
	}
	if peak := max(main, early); d.ShareMiB == 0 {
		c.unknown.Whole += peak
	} else {
		c.unknown.Shared += peak
		c.unknown.ShareMiB += asking * d.ShareMiB
	}
}

// fits tells whether there is a place for a pod of one container.
func (m *machine) fits(d *gpu.Demand) bool {
	c := m.count()
	var free, open, closed int64
	for card, uuid := range m.uuids() {
		if !m.healthy(card) || m.memory(card) < d.MemoryMinMiB || c.whole[uuid] > 0 {
			continue
		}
		roomy := m.shareable(card)-c.mib[uuid]-c.unknown.ShareMiB >= d.ShareMiB
		switch {
		case c.mib[uuid] == 0:
			free++
			if roomy {
				closed++
			}
		case roomy:
			open++
		}
	}
	if d.Shared > 0 {
		return open+max(closed-c.unknown.Whole, 0) >= d.Shared
	}
	return free-c.unknown.Whole-c.unknown.Shared >= d.Whole
}

// check compares the ledger's view of a machine with the count.
func (w *world) check(m *machine) {
	w.t.Helper()
	view := w.ledger.NodeView(m.info)
	if !m.up {
		if view != emptyView {
			w.t.Errorf("%s is gone and has a view", m.name)
		}
		return
	}
	c, used := m.count(), &view.Used
	for card, uuid := range m.uuids() {
		if c.whole[uuid] > 1 || c.whole[uuid] > 0 && c.mib[uuid] > 0 {
			w.t.Errorf("card %s is held by %d pods whole and with %d MiB", uuid, c.whole[uuid], c.mib[uuid])
		}
		if used.WholeGPUs().Has(card) != (c.whole[uuid] > 0) || used.MemoryOn(card) != c.mib[uuid] {
			w.t.Errorf("card %s: whole %v, %d MiB; the model says %d, %d MiB",
				uuid, used.WholeGPUs().Has(card), used.MemoryOn(card), c.whole[uuid], c.mib[uuid])
		}
	}
	if used.UnknownUse() != c.unknown {
		w.t.Errorf("unknown on %s is %+v, the model says %+v", m.name, used.UnknownUse(), c.unknown)
	}
}

// checkChoice looks at each card that a tenant is about to hold.
func (w *world) checkChoice(m *machine, tn *tenant) {
	w.t.Helper()
	c, uuids := m.count(), m.uuids()
	for uuid, got := range tn.cards {
		card := slices.Index(uuids, uuid)
		switch {
		case card < 0:
			w.t.Errorf("%s has no card %s", m.name, uuid)
		case !m.healthy(card):
			w.t.Errorf("card %s is given and unhealthy", uuid)
		case m.memory(card) < tn.demand.MemoryMinMiB:
			w.t.Errorf("card %s is given, with %d MiB of %d asked", uuid, m.memory(card), tn.demand.MemoryMinMiB)
		case c.whole[uuid] > 0, got.whole && c.mib[uuid] > 0:
			w.t.Errorf("card %s is given twice", uuid)
		case !got.whole && c.mib[uuid]+got.mib+c.unknown.ShareMiB > m.shareable(card):
			w.t.Errorf("card %s has %d MiB to share and gives %d", uuid, m.shareable(card), c.mib[uuid]+got.mib)
		}
	}
}

// checkNominated counts cards: those that come hold as many as they ask for, named or not, and never one of a tenant.
func (w *world) checkNominated(m *machine, expected fwk.NodeInfo, coming []*corev1.Pod) {
	w.t.Helper()
	now, then := &w.ledger.NodeView(m.info).Used, &w.ledger.NodeView(expected).Used
	if both := then.WholeGPUs() & then.SharedGPUs(); then.WholeGPUs()&now.WholeGPUs() != now.WholeGPUs() || both != 0 {
		w.t.Errorf("%s: nominated pods change whole cards from %v to %v, of which %v are shared, too", m.name, now.WholeGPUs(), then.WholeGPUs(), both)
	}
	got := int64(then.WholeGPUs().Len()) + then.UnknownUse().Whole - int64(now.WholeGPUs().Len()) - now.UnknownUse().Whole
	var want count
	for _, pod := range coming {
		demand, err := gpu.DemandOf(pod)
		if err != nil {
			w.t.Fatal(err)
		}
		want.addUnnamed(&demand)
	}
	if got != want.unknown.Whole {
		w.t.Errorf("%s: nominated pods hold %d whole cards, and ask for %d", m.name, got, want.unknown.Whole)
	}
}

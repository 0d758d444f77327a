package gpuquota

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// world is a pool of two types whose GPUs are all alike within their type, and namespaces that take and give them back at random.
type world struct {
	*testing.T
	*rand.Rand
	*Account
	quotas []Quota
	// free is by type, and held by unit: what leaves together.
	free  map[string]int64
	held  map[string][]Holding
	count int
	// borrowed and reclaimed are how often somebody started beyond a min, and for how many others left.
	borrowed, reclaimed int
}

var gpuTypes = []string{"SXM", "PCIe"}

// newWorld has quotas whose mins are no more than there is of each type. Namespace d has none.
func newWorld(t *testing.T, seed uint64) *world {
	w := &world{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), free: map[string]int64{}, held: map[string][]Holding{}}
	for _, of := range gpuTypes {
		w.free[of] = 64
		for _, namespace := range []string{"a", "b", "c"} {
			least := w.Int64N(22)
			w.quotas = append(w.quotas, Quota{Name: namespace + of, Namespaces: []string{namespace}, Pool: "p", Type: of, Min: least, Max: least + w.Int64N(30)})
		}
	}
	w.quotas = append(w.quotas, Quota{Name: "all", Namespaces: []string{"a", "b"}, Pool: "p", Max: 70})
	w.Account = NewAccount(w.quotas)
	return w
}

// TestRandomSteps takes 100,000 of them.
func TestRandomSteps(t *testing.T) {
	borrowed, reclaimed := 0, 0
	for seed := range uint64(20) {
		w := newWorld(t, seed)
		for range 5_000 {
			if w.IntN(3) == 0 {
				w.end()
			} else {
				w.arrive()
			}
			w.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		borrowed, reclaimed = borrowed+w.borrowed, reclaimed+w.reclaimed
	}
	if borrowed < 1000 || reclaimed < 1000 {
		t.Errorf("%d started beyond a min and others left for %d, want 1000 of each, or nothing is shown", borrowed, reclaimed)
	}
}

// end has a unit end.
func (w *world) end() {
	units := slices.Sorted(maps.Keys(w.held))
	if len(units) > 0 {
		w.leave(units[w.IntN(len(units))])
	}
}

func (w *world) leave(unit string) {
	for _, h := range w.held[unit] {
		w.RemovePod(h.Pod)
		w.free[h.At.Type] += h.GPUs
	}
	delete(w.held, unit)
}

// arrive has a pod or a gang come, of which all members go to one type.
func (w *world) arrive() {
	w.count++
	namespace, unit := []string{"a", "b", "c", "d"}[w.IntN(4)], fmt.Sprint("u", w.count)
	at, each, members := Place{"p", gpuTypes[w.IntN(2)]}, 1+w.Int64N(8), 1
	if w.IntN(3) == 0 {
		members = 2 + w.IntN(3)
	}
	ask := &Ask{Namespace: namespace, Pool: "p", GPUs: each * int64(members)}
	over := w.ExceededQuotas(ask)
	if _, ofPool := over[""]; ofPool {
		return
	}
	if _, ofType := over[at.Type]; ofType {
		return
	}
	within := w.IsWithinMin(ask, at)
	if w.free[at.Type] < ask.GPUs && !w.reclaim(ask, at) {
		if within {
			w.Errorf("%s gets no %d %s back that it is guaranteed", namespace, ask.GPUs, at.Type)
		}
		return
	}
	if !within {
		w.borrowed++
	}
	priority := int32(w.IntN(3))
	for member := range members {
		h := Holding{Pod: types.UID(fmt.Sprint(unit, "-", member)), Unit: unit, Namespace: namespace, At: at, GPUs: each, Priority: priority,
			Since: began.Add(time.Duration(w.count) * time.Second)}
		w.SetHolding(h)
		w.held[unit] = append(w.held[unit], h)
		w.free[at.Type] -= each
	}
}

// reclaim has borrowers leave until there is room, and nobody where there would be none whoever does.
func (w *world) reclaim(ask *Ask, at Place) bool {
	var leaving []string
	room := w.free[at.Type]
	for _, unit := range slices.Sorted(maps.Keys(w.held)) {
		if of := w.held[unit]; room < ask.GPUs && of[0].At == at && w.StandingOf(of[0].Pod, ask) == Yields {
			leaving = append(leaving, unit)
			room += of[0].GPUs * int64(len(of))
		}
	}
	if room < ask.GPUs {
		return false
	}
	for _, unit := range leaving {
		first := w.held[unit][0]
		w.checkMayLeave(&first)
		w.leave(unit)
	}
	w.reclaimed++
	return true
}

// checkMayLeave fails where somebody loses what they are guaranteed.
func (w *world) checkMayLeave(h *Holding) {
	for i := range w.quotas {
		q := &w.quotas[i]
		if q.Min > 0 && slices.Contains(q.Namespaces, h.Namespace) && q.coversPlace(h.At) && w.usedOf(q) <= q.Min {
			w.Errorf("%s leaves, though %s has %d of its %d", h.Pod, q.Name, w.usedOf(q), q.Min)
		}
	}
}

// usedOf counts what is held of a quota, without the account.
func (w *world) usedOf(q *Quota) (used int64) {
	for _, of := range w.held {
		for _, h := range of {
			if slices.Contains(q.Namespaces, h.Namespace) && q.coversPlace(h.At) {
				used += h.GPUs
			}
		}
	}
	return used
}

// check fails where somebody has more than they may, or there is.
func (w *world) check() {
	for i := range w.quotas {
		q := &w.quotas[i]
		if used := w.usedOf(q); used > q.Max {
			w.Errorf("%s has %d of %d", q.Name, used, q.Max)
		} else if used != w.Account.quotas[i].used {
			w.Errorf("%s has %d, the account says %d", q.Name, used, w.Account.quotas[i].used)
		}
	}
	for of, free := range w.free {
		if free < 0 {
			w.Errorf("%d more %s are held than there are", -free, of)
		}
	}
}

package quota

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"g8s.host/gpu-scheduler/test/fixture"
)

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func TestTurns(t *testing.T) {
	const gpus = "requests.nvidia.com/gpu"
	type list = map[corev1.ResourceName]string
	full := []corev1.ResourceQuota{bounds("q", list{gpus: "8"}, list{gpus: "8"})}
	gang := func(name string, minutes, pods int, change ...func(*Gang)) Gang {
		out := Gang{
			Job: name, Created: noon.Add(time.Duration(minutes) * time.Minute), Pod: fixture.Pod(name).GPUs(1).Obj(), Needs: 8, Pods: int64(pods), Newest: noon.Add(time.Minute),
		}
		for _, f := range change {
			f(&out)
		}
		return out
	}
	behind := func(job string) func(*Gang) { return func(g *Gang) { g.Behind = job } }
	short := func(g *Gang) { g.Short = true }
	part := func(unit string, minutes, needs, pods int, change ...func(*Gang)) Gang {
		out := gang(fmt.Sprint(unit, minutes), minutes, pods, change...)
		out.Unit, out.Needs = unit, int64(needs)
		return out
	}
	at := noon.Add(time.Hour)
	for name, tc := range map[string]struct {
		quotas []corev1.ResourceQuota
		gangs  []Gang
		want   []GangChange
	}{
		"one alone keeps its part":    {full, []Gang{gang("a", 0, 2)}, nil},
		"two halves: the older stays": {full, []Gang{gang("b", 1, 6), gang("a", 0, 2)}, []GangChange{{Job: "b", Suspend: true, Behind: "a"}}},
		"the priority goes before":    {full, []Gang{gang("b", 1, 6, func(g *Gang) { g.Rank = 1 }), gang("a", 0, 2)}, []GangChange{{Job: "a", Suspend: true, Behind: "b"}}},
		"three": {full, []Gang{gang("c", 2, 1), gang("b", 1, 1), gang("a", 0, 1)}, []GangChange{
			{Job: "b", Suspend: true, Behind: "a"}, {Job: "c", Suspend: true, Behind: "b"},
		}},
		"the one before it in line is gone": {full, []Gang{gang("c", 2, 0, behind("b")), gang("a", 0, 1)}, []GangChange{{Job: "c", Suspend: true, Behind: "a"}}},
		"a new one of higher priority":      {full, []Gang{gang("c", 2, 0, behind("b")), gang("b", 1, 1), gang("a", 0, 0, behind("x"), func(g *Gang) { g.Rank = -1 })}, []GangChange{{Job: "a", Suspend: true, Behind: "c"}}},
		"the first got a pod a moment ago: nothing is resumed beside it": {full,
			[]Gang{gang("b", 1, 0, behind("a")), gang("a", 0, 7, func(g *Gang) { g.Newest = at.Add(-time.Second) })}, nil},
		"a new one may get all of its pods yet: one after it keeps its part": {full,
			[]Gang{gang("b", 1, 4), gang("a", 0, 0, func(g *Gang) { g.Newest = at.Add(-time.Second) })}, nil},
		"the first has its pods: the next is resumed": {full, []Gang{gang("c", 2, 0, behind("a")), gang("b", 1, 0, behind("a"))}, []GangChange{
			{Job: "b", Resume: true}, {Job: "c", Suspend: true, Behind: "b"},
		}},
		"one that runs in part is not touched": {full, []Gang{gang("a", 0, 2), gang("b", 1, 6, func(g *Gang) { g.Begun = true })}, nil},
		"one whose pods are just being made":   {full, []Gang{gang("a", 0, 2), gang("b", 1, 6, func(g *Gang) { g.Newest = at.Add(-time.Second) })}, nil},
		"room for one more: Kubernetes is to try now": {
			[]corev1.ResourceQuota{bounds("q", list{gpus: "7"}, list{gpus: "8"})}, []Gang{gang("a", 0, 2)}, []GangChange{{Job: "a", Retry: true}},
		},
		"room for all, and it had its turn long ago: something else keeps its pods from being made": {
			[]corev1.ResourceQuota{bounds("q", list{gpus: "0"}, list{gpus: "8"})},
			[]Gang{gang("a", 0, 0, func(g *Gang) { g.Turn = at.Add(-2 * time.Minute) }), gang("b", 1, 0, behind("a"))}, []GangChange{{Job: "b", Resume: true}},
		},
		"one that never fits gives its part back": {full, []Gang{gang("a", 0, 4, func(g *Gang) { g.Needs = 16 }), gang("b", 1, 4)}, []GangChange{{Job: "a", Suspend: true, Behind: "b"}}},
		"one that never fits, alone, shows it":    {full, []Gang{gang("a", 0, 0, behind("b"), func(g *Gang) { g.Needs = 16 })}, []GangChange{{Job: "a", Resume: true}}},
		"two Jobs of each gang: both of the younger one give their parts back": {full,
			[]Gang{part("a", 0, 1, 1), part("a", 1, 7, 3), part("b", 2, 1, 1), part("b", 3, 7, 3)},
			[]GangChange{{Job: "b2", Suspend: true, Behind: "a0"}, {Job: "b3", Suspend: true, Behind: "a0"}}},
		"one Job of the first is suspended, as a write failed": {full,
			[]Gang{part("a", 0, 1, 1), part("a", 1, 7, 0, behind("x")), part("b", 2, 1, 0, behind("a0")), part("b", 3, 7, 0, behind("a0"))},
			[]GangChange{{Job: "a1", Resume: true}}},
		"one Job has all of its pods, and the other is to get one more": {[]corev1.ResourceQuota{bounds("q", list{gpus: "7"}, list{gpus: "8"})},
			[]Gang{part("a", 0, 1, 1), part("a", 1, 7, 3)}, []GangChange{{Job: "a1", Retry: true}}},
		"two Jobs that never fit together give their parts back": {full,
			[]Gang{part("a", 0, 4, 2), part("a", 1, 7, 2), part("b", 2, 1, 1), part("b", 3, 7, 3)},
			[]GangChange{{Job: "a0", Suspend: true, Behind: "b2"}, {Job: "a1", Suspend: true, Behind: "b2"}}},
		"one that never starts gives its part back":    {full, []Gang{gang("a", 0, 8, short), gang("b", 1, 0)}, []GangChange{{Job: "a", Suspend: true, Behind: "b"}}},
		"ones that never start, alone, show it":        {full, []Gang{gang("a", 0, 8, short), gang("b", 1, 0, short, behind("c")), gang("d", 2, 0, short)}, []GangChange{{Job: "b", Resume: true}}},
		"one that never starts comes after all others": {full, []Gang{gang("a", 0, 0, short, behind("x")), gang("b", 1, 4, func(g *Gang) { g.Needs = 16 })}, []GangChange{{Job: "a", Suspend: true, Behind: "b"}}},
		"quotas that bound nothing of it":              {[]corev1.ResourceQuota{bounds("q", nil, list{"services": "0"})}, []Gang{gang("a", 0, 2), gang("b", 1, 6)}, nil},
		"no quota any more":                            {nil, []Gang{gang("b", 1, 0, behind("a"))}, []GangChange{{Job: "b", Resume: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, _ := PlanGangs(tc.quotas, tc.gangs, at)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestThousandsInLine has the first of many gangs start: the next one is resumed, and hardly anything is written for the others.
func TestThousandsInLine(t *testing.T) {
	const many = 3_000
	w := &play{random: rand.New(rand.NewPCG(1, 1)), hard: 8, now: noon}
	for i := range many {
		w.gangs = append(w.gangs, &Gang{Job: fmt.Sprint("g", i), Created: noon.Add(time.Duration(i) * time.Millisecond), Pod: fixture.Pod("p").GPUs(1).Obj(), Needs: 8, Pods: 0})
	}
	w.now = w.now.Add(time.Minute)
	w.turns(0)
	w.written = 0
	first := w.gangs[0]
	first.Pods, first.Begun = 8, true
	w.turns(8)
	if w.written == 0 || w.written > 3 {
		t.Errorf("the first of %d gangs has started, and %d were written", many, w.written)
	}
}

// TestWhatSomethingElseRefuses: an older gang whose pods something else than the quota refuses neither keeps others from theirs nor is written
// again and again, whether there is room for all or for a part.
func TestWhatSomethingElseRefuses(t *testing.T) {
	for name, other := range map[string]int64{"which fits": 4, "which does not fit for now": 8} {
		t.Run(name, func(t *testing.T) {
			w := &play{random: rand.New(rand.NewPCG(1, 1)), hard: 10, others: 4, now: noon, refused: "old"}
			for i, needs := range []int64{4, other} {
				w.gangs = append(w.gangs, &Gang{Job: []string{"old", "new"}[i], Created: noon.Add(time.Duration(i) * time.Second), Newest: noon, Pod: fixture.Pod("p").GPUs(1).Obj(), Needs: needs})
			}
			for range 600 {
				w.second()
			}
			soon := w.written
			for range 3_600 {
				w.second()
			}
			if fits := other+w.others <= w.hard; fits != w.ended["new"] || soon > 20 || w.written > soon+30 {
				t.Errorf("the other has run: %t; %d writes in ten minutes, and %d in an hour after that", w.ended["new"], soon, w.written-soon)
			}
		})
	}
}

// TestEveryGangThatFitsRuns plays Job controllers that make pods in any order as far as a quota lets them, gangs that come at any time, and such as
// run for a while once they are whole. Every gang that the quota can hold has run in the end, however the parts fall.
func TestEveryGangThatFitsRuns(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &play{random: random, hard: 4 + random.Int64N(12), now: noon}
		for i := range 2 + random.IntN(5) {
			w.gangs = append(w.gangs, &Gang{
				Job: fmt.Sprint("g", i), Rank: random.IntN(3) - 1, Created: noon.Add(time.Duration(random.IntN(60)) * time.Second),
				Pod: fixture.Pod("p").GPUs(1).Obj(), Needs: 2 + random.Int64N(10),
			})
		}
		for range 1_000 {
			w.second()
		}
		for _, gang := range w.gangs {
			if fits := gang.Needs <= w.hard; fits != w.ended[gang.Job] {
				t.Fatalf("seed %d: a gang of %d, the quota is %d: it has run: %t, %+v", seed, gang.Needs, w.hard, w.ended[gang.Job], *gang)
			}
		}
	}
}

// TestEveryGangOfSeveralJobsRuns is TestEveryGangThatFitsRuns with gangs that two Jobs make the pods of: one that has all of its own holds them while
// the other one waits.
func TestEveryGangOfSeveralJobsRuns(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 2))
		w := &play{random: random, hard: 4 + random.Int64N(12), now: noon}
		needs := map[string]int64{}
		for i := range 2 + random.IntN(4) {
			unit, rank := fmt.Sprint("g", i), random.IntN(3)-1
			for j := range 2 {
				one := &Gang{
					Job: fmt.Sprint(unit, "-", j), Unit: unit, Rank: rank, Created: noon.Add(time.Duration(random.IntN(60)) * time.Second),
					Pod: fixture.Pod("p").GPUs(1).Obj(), Needs: 1 + random.Int64N(6),
				}
				w.gangs, needs[unit] = append(w.gangs, one), needs[unit]+one.Needs
			}
		}
		for range 1_000 {
			w.second()
		}
		for _, gang := range w.gangs {
			if fits := needs[gang.Unit] <= w.hard; fits != w.ended[gang.Job] {
				t.Fatalf("seed %d: a gang of %d, the quota is %d: it has run: %t, %+v", seed, needs[gang.Unit], w.hard, w.ended[gang.Job], *gang)
			}
		}
	}
}

// play is a namespace in virtual time.
type play struct {
	random *rand.Rand
	hard   int64
	now    time.Time
	gangs  []*Gang
	until  map[string]time.Time
	ended  map[string]bool
	// others is what pods of no gang use, refused the gang whose pods something else refuses, written how many turns were carried out.
	others  int64
	refused string
	written int
}

func (w *play) second() {
	w.now = w.now.Add(time.Second)
	if w.until == nil {
		w.until, w.ended = map[string]time.Time{}, map[string]bool{}
	}
	used := w.others
	for _, gang := range w.gangs {
		used += gang.Pods
	}
	for _, i := range w.random.Perm(len(w.gangs)) {
		gang := w.gangs[i]
		switch until := w.until[gang.Job]; {
		case gang.Begun && !w.now.Before(until):
			used -= gang.Pods
			gang.Pods, w.ended[gang.Job] = 0, true
		case gang.Begun || gang.Behind != "" || gang.Created.After(w.now) || gang.Job == w.refused || w.random.IntN(3) == 0:
		case gang.Pods == gang.Needs:
			if unit := w.unitOf(gang); !slices.ContainsFunc(unit, isIncomplete) {
				end := w.now.Add(time.Duration(5+w.random.IntN(20)) * time.Second)
				for _, one := range unit {
					one.Begun, w.until[one.Job] = true, end
				}
			}
		case used < w.hard:
			gang.Pods, used, gang.Newest = gang.Pods+1, used+1, w.now
		}
	}
	w.turns(used)
}

// unitOf are the Jobs that are one gang with one.
func (w *play) unitOf(gang *Gang) (unit []*Gang) {
	if gang.Unit == "" {
		return []*Gang{gang}
	}
	for _, other := range w.gangs {
		if other.Unit == gang.Unit {
			unit = append(unit, other)
		}
	}
	return unit
}

func isIncomplete(gang *Gang) bool { return gang.Pods < gang.Needs }

func (w *play) turns(used int64) {
	quantity := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{"requests.nvidia.com/gpu": *resource.NewQuantity(n, resource.DecimalSI)}
	}
	q := corev1.ResourceQuota{Spec: corev1.ResourceQuotaSpec{Hard: quantity(w.hard)}, Status: corev1.ResourceQuotaStatus{Used: quantity(used)}}
	byName, there := map[string]*Gang{}, []Gang(nil)
	for _, gang := range w.gangs {
		byName[gang.Job] = gang
		if !gang.Created.After(w.now) && !gang.Begun && slices.ContainsFunc(w.unitOf(gang), isIncomplete) {
			there = append(there, *gang)
		}
	}
	turns, _ := PlanGangs([]corev1.ResourceQuota{q}, there, w.now)
	for _, turn := range turns {
		gang := byName[turn.Job]
		w.written++
		switch {
		case turn.Suspend:
			gang.Behind, gang.Pods = turn.Behind, 0
		case turn.Resume:
			gang.Behind, gang.Newest = "", w.now
		case turn.Retry:
			gang.Turn = w.now
		}
	}
}

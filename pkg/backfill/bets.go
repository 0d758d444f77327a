package backfill

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// lostAnyway is how many bets a namespace may lose against a job whatever it has placed, and lostOf the share of them that it may lose beside:
	// one in so many. One in twenty is what is to be expected.
	lostAnyway, lostOf = 2, 10
	// mostBetting is against how many jobs bets are remembered.
	mostBetting = 1000
)

// bets are those that were placed against a job: pods on what it was promised that are expected to be gone by then.
type bets struct {
	open         map[types.UID]bet
	placed, lost map[string]int // by namespace
}

type bet struct {
	name  types.NamespacedName
	until time.Time
}

// place notes that a pod is there until a time.
func (b *bets) place(pod *corev1.Pod, until time.Time) {
	if _, again := b.open[pod.UID]; !again {
		b.placed[pod.Namespace]++
	}
	b.open[pod.UID] = bet{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, until}
}

// settle ends the bets whose time is over: who is there still has lost.
func (b *bets) settle(now time.Time, there func(types.NamespacedName, types.UID) bool) {
	for uid, placed := range b.open {
		if placed.until.After(now) {
			continue
		}
		delete(b.open, uid)
		if there(placed.name, uid) {
			b.lost[placed.name.Namespace]++
		}
	}
}

// barred are the namespaces that have lost too many.
func (b *bets) barred() sets.Set[string] {
	var out sets.Set[string]
	for namespace, lost := range b.lost {
		if lost > lostAnyway+b.placed[namespace]/lostOf {
			if out == nil {
				out = sets.New[string]()
			}
			out.Insert(namespace)
		}
	}
	return out
}

// Place notes that a pod is placed on a node, if others were promised that and it is only expected to be gone by then.
func (p *Promises) Place(pod *corev1.Pod, node string) {
	book := p.Book()
	if book == nil || !p.Learns() || !ends(pod) {
		return
	}
	turn, now := p.turnOf(pod), p.now()
	for _, promise := range book.promises {
		if !promise.Expected || !promise.has(node) || promise.Job == turn.Job || turn.Before(promise.Turn) {
			continue
		}
		if stay, known := p.expected.stay(pod, turn.Members); known {
			p.mu.Lock()
			p.betsOn(promise.Job).place(pod, now.Add(stay))
			p.mu.Unlock()
		}
	}
}

// SettleBets looks who has left of those that were expected to, on what a job was promised: a namespace whose pods stay too often bets
// against that job no more. There tells whether a pod is on its node still. It is asked before the job is promised its start again.
func (p *Promises) SettleBets(job string, there func(types.NamespacedName, types.UID) bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.betting[job]; of != nil {
		of.settle(p.now(), there)
	}
}

// betsOn are the bets against a job. Of too many jobs those are forgotten that are promised nothing.
func (p *Promises) betsOn(job string) *bets {
	if of := p.betting[job]; of != nil {
		return of
	}
	if len(p.betting) >= mostBetting {
		maps.DeleteFunc(p.betting, func(job string, _ *bets) bool { return p.Book().Of(job) == nil })
	}
	if p.betting == nil {
		p.betting = map[string]*bets{}
	}
	p.betting[job] = &bets{open: map[types.UID]bet{}, placed: map[string]int{}, lost: map[string]int{}}
	return p.betting[job]
}

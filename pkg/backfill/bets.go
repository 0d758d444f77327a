package backfill

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// freeLosses is how many bets a namespace may always lose against a job, and lossDivisor the share of its bets that it may lose in addition: one
	// in so many. One in twenty is to be expected.
	freeLosses, lossDivisor = 2, 10
	// maxBetJobs is for how many jobs bets are remembered.
	maxBetJobs = 1000
)

// bets are the bets placed against a job: pods on its reserved nodes that are expected to be gone in time.
type bets struct {
	open         map[types.UID]bet
	placed, lost map[string]int // by namespace
}

type bet struct {
	name  types.NamespacedName
	until time.Time
}

// placeBet records a pod that is expected to stay until a time.
func (b *bets) placeBet(pod *corev1.Pod, until time.Time) {
	if _, again := b.open[pod.UID]; !again {
		b.placed[pod.Namespace]++
	}
	b.open[pod.UID] = bet{types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, until}
}

// settleBets ends the bets whose time is over: a pod that is still there has lost.
func (b *bets) settleBets(now time.Time, there func(types.NamespacedName, types.UID) bool) {
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

// barredNamespaces returns the namespaces that have lost too many bets.
func (b *bets) barredNamespaces() sets.Set[string] {
	var out sets.Set[string]
	for namespace, lost := range b.lost {
		if lost > freeLosses+b.placed[namespace]/lossDivisor {
			if out == nil {
				out = sets.New[string]()
			}
			out.Insert(namespace)
		}
	}
	return out
}

// PlaceBet records a pod on a node that another job has reserved, if the pod is only expected to be gone in time.
func (p *StartReservations) PlaceBet(pod *corev1.Pod, node string) {
	book := p.CurrentSet()
	if book == nil || !p.HasHistory() || !endsByItself(pod) {
		return
	}
	turn, now := p.positionOf(pod), p.now()
	for _, promise := range book.reservations {
		if !promise.Expected || !promise.hasNode(node) || promise.Job == turn.Job || turn.SortsBefore(promise.QueuePosition) {
			continue
		}
		if stay, known := p.expected.expectedStay(pod, turn.Members); known {
			p.mu.Lock()
			p.betsOn(promise.Job).placeBet(pod, now.Add(stay))
			p.mu.Unlock()
		}
	}
}

// SettleBets checks which pods on a job's reserved nodes have left as expected: a namespace whose pods stay too often may no longer bet against
// that job. there reports whether a pod is still on its node. It is called before the reservation is renewed.
func (p *StartReservations) SettleBets(job string, there func(types.NamespacedName, types.UID) bool) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if of := p.betsByJob[job]; of != nil {
		of.settleBets(p.now(), there)
	}
}

// betsOn returns the bets against a job. If there are too many jobs, those without a reservation are dropped.
func (p *StartReservations) betsOn(job string) *bets {
	if of := p.betsByJob[job]; of != nil {
		return of
	}
	if len(p.betsByJob) >= maxBetJobs {
		maps.DeleteFunc(p.betsByJob, func(job string, _ *bets) bool { return p.CurrentSet().ForJob(job) == nil })
	}
	if p.betsByJob == nil {
		p.betsByJob = map[string]*bets{}
	}
	p.betsByJob[job] = &bets{open: map[types.UID]bet{}, placed: map[string]int{}, lost: map[string]int{}}
	return p.betsByJob[job]
}

package gpuquota

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/amounts"
)

// Stock counts the GPUs of the nodes of a place.
type Stock struct {
	// There is the total, Open the part on nodes that accept pods, and Free what a new pod could get of it.
	There, Open, Free int64
}

// Plus adds two stocks without overflow.
func (s Stock) Plus(other Stock) Stock {
	return Stock{amounts.Add(s.There, other.There), amounts.Add(s.Open, other.Open), amounts.Add(s.Free, other.Free)}
}

// Demand is the demand of a waiting pod.
type Demand struct {
	Namespace, Pool string
	// Types are the accepted GPU types, none for all.
	Types []string
	// Job is equal for pods that are counted as one job.
	Job   string
	GPUs  int64
	Since time.Time
}

// Waiting is the waiting demand that counts in a quota.
type Waiting struct {
	Jobs  int
	GPUs  int64
	Since time.Time
}

// Borrower is the amount that a namespace borrows.
type Borrower struct {
	Namespace string
	GPUs      int64
}

// Pledge is the total guarantee at a place, the number of quotas, and the existing GPUs.
type Pledge struct {
	At         Place
	Quotas     int
	Guaranteed int64
	Stock
}

// State is the current state of a quota.
type State struct {
	Use
	// Free is the part of its min that is available at once, and Lent the part that it would get back from others. Both assume that only this quota
	// asks: two quotas may count the same GPUs.
	Free, Lent int64
	// Borrowers are the namespaces that borrow where the quota counts, the largest first: from it or from others. It is empty if the quota lends
	// nothing.
	Borrowers []Borrower
	Waiting   Waiting
	// Pledges are the guarantees where the quota counts: of its pool, and of its GPU type if it has one.
	Pledges []Pledge
}

// BackingStock returns the GPUs that can back the min: on nodes that accept pods.
func (s *State) BackingStock() Stock { return s.Pledges[len(s.Pledges)-1].Stock }

// QuotaStates returns the states of all quotas, in their order, for the given stock and demand.
func (a *Account) QuotaStates(stock map[Place]Stock, demand []Demand) []State {
	var (
		uses     = a.QuotaUses()
		waits    = a.pendingDemand(demand)
		borrowed = a.borrowedGPUs()
		pledges  = a.placePledges(stock)
		out      = make([]State, len(a.quotas))
	)
	for i, t := range a.quotas {
		s := State{Use: uses[i], Waiting: waits[t], Pledges: []Pledge{pledges[Place{Pool: t.Pool}]}}
		if t.Type != "" {
			s.Pledges = append(s.Pledges, pledges[Place{t.Pool, t.Type}])
		}
		if spare := t.Min - t.guaranteedUse(); spare > 0 {
			others, sum := t.otherBorrowers(borrowed[t.Pool])
			s.Free = min(spare, max(0, s.BackingStock().Free))
			if s.Lent = min(spare-s.Free, sum); s.Lent > 0 {
				s.Borrowers = others
			}
		}
		out[i] = s
	}
	return out
}

// guaranteedUse returns what pods within the min hold.
func (t *tally) guaranteedUse() (sum int64) {
	for pod, e := range t.pods {
		if !e.Waits && t.isSecured(pod) {
			sum += e.GPUs
		}
	}
	return sum
}

// loan is a borrowing namespace and the GPU type.
type loan struct{ namespace, gpuType string }

// borrowedGPUs returns the borrowed GPUs by pool.
func (a *Account) borrowedGPUs() map[string]map[loan]int64 {
	out := map[string]map[loan]int64{}
	for uid, e := range a.pods {
		if e.Waits || !a.guaranteed[e.At.Pool] || !a.IsBorrowing(uid) {
			continue
		}
		if out[e.At.Pool] == nil {
			out[e.At.Pool] = map[loan]int64{}
		}
		out[e.At.Pool][loan{e.Namespace, e.At.Type}] += e.GPUs
	}
	return out
}

// otherBorrowers returns the other namespaces that borrow where a quota counts, the largest first, and their sum.
func (t *tally) otherBorrowers(loans map[loan]int64) (out []Borrower, sum int64) {
	by := map[string]int64{}
	for l, gpus := range loans {
		if (t.Type == "" || t.Type == l.gpuType) && !slices.Contains(t.Namespaces, l.namespace) {
			by[l.namespace] += gpus
			sum += gpus
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(by)) {
		out = append(out, Borrower{namespace, by[namespace]})
	}
	slices.SortStableFunc(out, func(a, b Borrower) int { return cmp.Compare(b.GPUs, a.GPUs) })
	return out, sum
}

// pendingDemand sums the waiting demand by quota.
func (a *Account) pendingDemand(demand []Demand) map[*tally]Waiting {
	out, jobs := map[*tally]Waiting{}, map[*tally]map[string]bool{}
	for i := range demand {
		d := &demand[i]
		for _, t := range a.byShare[share{d.Namespace, d.Pool}] {
			if t.Type != "" && len(d.Types) > 0 && !slices.Contains(d.Types, t.Type) {
				continue
			}
			if jobs[t] == nil {
				jobs[t] = map[string]bool{}
			}
			jobs[t][d.Job] = true
			w := out[t]
			if w.Since.IsZero() || d.Since.Before(w.Since) {
				w.Since = d.Since
			}
			w.Jobs, w.GPUs = len(jobs[t]), w.GPUs+d.GPUs
			out[t] = w
		}
	}
	return out
}

// placePledges returns the guarantees of each pool, and of each GPU type that a quota counts. A quota that lies within another one, such as one of a GPU
// type beside one of the pool for the same namespaces, adds no guarantee to it.
func (a *Account) placePledges(stock map[Place]Stock) map[Place]Pledge {
	of := map[Place][]*tally{}
	for _, t := range a.quotas {
		of[Place{Pool: t.Pool}] = append(of[Place{Pool: t.Pool}], t)
		if t.Type != "" {
			of[Place{t.Pool, t.Type}] = append(of[Place{t.Pool, t.Type}], t)
		}
	}
	out := make(map[Place]Pledge, len(of))
	for at, quotas := range of {
		p := Pledge{At: at, Guaranteed: a.totalGuaranteed(quotas)}
		for _, t := range quotas {
			if t.Min > 0 {
				p.Quotas++
			}
		}
		for place, s := range stock {
			if place.Pool == at.Pool && (at.Type == "" || place.Type == at.Type) {
				p.Stock = p.Plus(s)
			}
		}
		out[at] = p
	}
	return out
}

// totalGuaranteed returns the total guarantee of quotas: for nested quotas the larger one counts.
func (a *Account) totalGuaranteed(quotas []*tally) (sum int64) {
	inside, roots := map[*tally][]*tally{}, []*tally(nil)
	for _, t := range quotas {
		if around := a.enclosingQuota(t, quotas); around != nil {
			inside[around] = append(inside[around], t)
		} else {
			roots = append(roots, t)
		}
	}
	var floor func(t *tally) int64
	floor = func(t *tally) int64 {
		var parts int64
		for _, part := range inside[t] {
			parts += floor(part)
		}
		return max(t.Min, parts)
	}
	for _, t := range roots {
		sum += floor(t)
	}
	return sum
}

// enclosingQuota returns the smallest of the quotas that contains a quota, nil for none.
func (a *Account) enclosingQuota(t *tally, quotas []*tally) (best *tally) {
	if len(t.Namespaces) == 0 {
		return nil
	}
	for _, other := range a.byShare[share{t.Namespaces[0], t.Pool}] {
		if t.liesIn(other) && slices.Contains(quotas, other) && (best == nil || other.liesIn(best)) {
			best = other
		}
	}
	return best
}

// liesIn reports whether everything that counts in a quota also counts in another one. Of two equal quotas, one lies in the other.
func (t *tally) liesIn(other *tally) bool {
	if t == other || !t.isCoveredBy(other) {
		return false
	}
	return !other.isCoveredBy(t) || strings.Compare(t.Name, other.Name) > 0
}

func (t *tally) isCoveredBy(by *tally) bool {
	return t.Pool == by.Pool && (by.Type == "" || by.Type == t.Type) &&
		!slices.ContainsFunc(t.Namespaces, func(n string) bool { return !slices.Contains(by.Namespaces, n) })
}

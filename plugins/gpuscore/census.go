package gpuscore

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// register knows which pods run or wait. It takes a census by what has changed since the last one: what a pod asks for
// is read once. The zero value has seen no pod.
type register struct {
	residents map[types.UID]*resident // nil before the first census
	pools     map[string]*population
	// asking is how many pods ask for cards.
	asking int64
	round  int64
}

// resident is a pod, which asks for cards or not, and the last census that found it there.
type resident struct {
	ask
	round int64
}

// population is the pods of a pool that ask for cards.
type population struct {
	// pods are their numbers by what they ask for, all is how many there are together.
	pods map[ask]int64
	all  int64
	// rate is how many of them leave for each that comes.
	rate float64
	// changes is how many have ever come or left.
	changes int64

	turnover   fragmentation.Turnover
	came, left int64 // since the last census
}

// count takes a census of the pods of an informer's store. Pods that have ended are not in it.
func (r *register) count(store []any) {
	first := r.residents == nil
	if first {
		r.residents, r.pools = map[types.UID]*resident{}, map[string]*population{}
	}
	r.round++
	here := 0
	for _, obj := range store {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			continue
		}
		known := r.residents[pod.UID]
		if known == nil {
			known = r.add(pod, first)
		}
		if known.round != r.round {
			known.round = r.round
			here++
		}
	}
	if here < len(r.residents) {
		r.strike()
	}
	for pool, in := range r.pools {
		in.rate = in.turnover.Next(in.came, in.left)
		in.came, in.left = 0, 0
		if in.all == 0 && in.turnover.Idle() {
			delete(r.pools, pool)
		}
	}
}

// add files a pod. Those of the first census are not new, they were there before.
func (r *register) add(pod *corev1.Pod, first bool) *resident {
	known := &resident{ask: askOf(pod)}
	r.residents[pod.UID] = known
	if known.none() {
		return known
	}
	in := r.pools[known.pool]
	if in == nil {
		in = &population{pods: map[ask]int64{}}
		r.pools[known.pool] = in
	}
	r.asking++
	in.all++
	in.changes++
	in.pods[known.ask]++
	if !first {
		in.came++
	}
	return known
}

// strike takes out who is no longer there.
func (r *register) strike() {
	for uid, known := range r.residents {
		if known.round == r.round {
			continue
		}
		delete(r.residents, uid)
		if known.none() {
			continue
		}
		r.asking--
		in := r.pools[known.pool]
		in.all--
		in.changes++
		in.left++
		if in.pods[known.ask]--; in.pods[known.ask] == 0 {
			delete(in.pods, known.ask)
		}
	}
}

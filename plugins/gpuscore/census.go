package gpuscore

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// census is the pods that run or wait.
type census struct {
	// pods are their numbers by what they ask for.
	pods map[ask]int64
	// turnover is how many leave for each that comes, by pool.
	turnover map[string]float64
}

// register takes a census by what has changed since the last one: what a pod asks for is read once. The zero value has
// seen no pod.
type register struct {
	residents map[types.UID]*resident // nil before the first census
	pods      map[ask]int64
	turnover  map[string]*fragmentation.Turnover
	round     int64
}

// resident is a pod, which asks for cards or not, and the last census that found it there.
type resident struct {
	ask
	round int64
}

// count takes a census of the pods of an informer's store. Pods that have ended are not in it.
func (r *register) count(store []any) census {
	came, left := map[string]int64{}, map[string]int64{}
	first := r.residents == nil
	if first {
		r.residents, r.pods, r.turnover = map[types.UID]*resident{}, map[ask]int64{}, map[string]*fragmentation.Turnover{}
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
			known = r.add(pod)
			if !first && !known.none() {
				came[known.pool]++
			}
		}
		if known.round != r.round {
			known.round = r.round
			here++
		}
	}
	if here < len(r.residents) {
		r.strike(left)
	}
	return census{pods: r.pods, turnover: r.turn(came, left)}
}

func (r *register) add(pod *corev1.Pod) *resident {
	known := &resident{ask: askOf(pod)}
	r.residents[pod.UID] = known
	if !known.none() {
		r.pods[known.ask]++
	}
	return known
}

// strike takes out who is no longer there, and counts them by pool.
func (r *register) strike(left map[string]int64) {
	for uid, known := range r.residents {
		if known.round == r.round {
			continue
		}
		delete(r.residents, uid)
		if known.none() {
			continue
		}
		left[known.pool]++
		if r.pods[known.ask]--; r.pods[known.ask] == 0 {
			delete(r.pods, known.ask)
		}
	}
}

// turn returns how many pods leave for each that comes, by pool, when so many came and left since the last time. A pool
// in which nothing came or left for long is forgotten.
func (r *register) turn(came, left map[string]int64) map[string]float64 {
	for _, changes := range []map[string]int64{came, left} {
		for pool := range changes {
			if r.turnover[pool] == nil {
				r.turnover[pool] = &fragmentation.Turnover{}
			}
		}
	}
	rates := map[string]float64{}
	for pool, turnover := range r.turnover {
		rates[pool] = turnover.Next(came[pool], left[pool])
		if turnover.Idle() {
			delete(r.turnover, pool)
		}
	}
	return rates
}

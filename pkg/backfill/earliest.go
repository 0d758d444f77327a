// Package backfill reserves a start for the first job in a queue that does not fit: on which nodes all of it fits first, as running pods end,
// and by when. Until then other pods may use the reserved nodes if they are gone by that time, or leave what the job needs. That is EASY
// backfilling (Lifka 1995), on nodes, with the sets of GPUs and the topology that pkg/gangplan and its callers know.
//
// A reservation rests on deadlines that nodes enforce. A pod without a deadline may stay forever, so no start is based on its end, unless a
// ledger tells how long similar jobs have run (expected.go).
package backfill

import (
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// Problem is a gang that does not fit now.
type Problem struct {
	// Problem is the gang and its constraints. Its Room is not used.
	gangplan.Problem
	// Ends are the end times of the pods on each node, in order.
	Ends map[int][]time.Time
	// RoomAfter returns how many members of a role a node takes beside some others when the first gone of its ending pods are gone.
	RoomAfter func(node, role int, beside []int, gone int) int
	// Latest is the last useful time.
	Latest time.Time
}

// EarliestStart returns when a gang fits first, and where; no plan if it does not fit by the latest time. It bisects the end times of pods: there is
// more room when more pods are gone.
func EarliestStart(p Problem) (at time.Time, plan *gangplan.Plan) {
	times := p.endTimes()
	s := &search{Problem: &p, known: map[question]int{}}
	low, high := 0, len(times)
	for low < high {
		middle := int(uint(low+high) >> 1)
		found := s.planAt(times[middle])
		if found == nil {
			low = middle + 1
			continue
		}
		high, at, plan = middle, times[middle], found
	}
	return at, plan
}

// endTimes returns the distinct end times.
func (p *Problem) endTimes() (times []time.Time) {
	for _, ends := range p.Ends {
		for _, end := range ends {
			if !end.After(p.Latest) {
				times = append(times, end)
			}
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	return slices.CompactFunc(times, time.Time.Equal)
}

// search is one call of Earliest. known caches the room of nodes without members.
type search struct {
	*Problem
	known map[question]int
}

type question struct{ node, role, gone int }

// planAt returns a plan for a time.
func (s *search) planAt(then time.Time) *gangplan.Plan {
	problem := s.Problem.Problem
	problem.Room = func(node, role int, beside []int) int {
		q := question{node, role, CountGone(s.Ends[node], then)}
		if beside != nil {
			return s.RoomAfter(node, role, beside, q.gone)
		}
		room, known := s.known[q]
		if !known {
			room = s.RoomAfter(node, role, nil, q.gone)
			s.known[q] = room
		}
		return room
	}
	plan, _ := gangplan.Make(problem)
	return plan
}

// CountGone returns how many of some ends are over by a time.
func CountGone(ends []time.Time, by time.Time) int {
	after := slices.IndexFunc(ends, func(end time.Time) bool { return end.After(by) })
	if after < 0 {
		return len(ends)
	}
	return after
}

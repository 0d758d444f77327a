// Package backfill promises a start to the job that is first in line and does not fit: on which nodes all of it fits first, as
// those who are there end, and by when. Until then others may use what it was promised if they are gone by that time, or leave
// what it needs. That is EASY backfilling (Lifka 1995), on nodes, with the sets of cards and the topology that pkg/gangplan and
// who asks it know.
//
// A promise rests on deadlines that nodes enforce. Who has none may be there for ever, so nothing is promised on their leaving, unless
// a ledger tells how long jobs like them have run (expected.go).
package backfill

import (
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// Problem is a gang that does not fit now.
type Problem struct {
	// Problem is the gang, and what may be looked at for it. Its Room is not asked.
	gangplan.Problem
	// Ends are when pods are gone from each node, the first of them first.
	Ends map[int][]time.Time
	// RoomAfter is how many members of a role a node takes beside some others when as many as gone of those who end there are gone.
	RoomAfter func(node, role int, beside []int, gone int) int
	// Latest is the last time that is of use.
	Latest time.Time
}

// Earliest returns when a gang fits first, and where; no plan if it does not by the latest time. It looks at the times at which
// somebody is gone by halves: when more are gone there is more room.
func Earliest(p Problem) (at time.Time, plan *gangplan.Plan) {
	times := p.times()
	s := &search{Problem: &p, known: map[question]int{}}
	low, high := 0, len(times)
	for low < high {
		middle := int(uint(low+high) >> 1)
		found := s.at(times[middle])
		if found == nil {
			low = middle + 1
			continue
		}
		high, at, plan = middle, times[middle], found
	}
	return at, plan
}

// times are those at which somebody is gone, each once.
func (p *Problem) times() (times []time.Time) {
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

// search is one call of Earliest. known is what it was told of nodes that no members go to yet.
type search struct {
	*Problem
	known map[question]int
}

type question struct{ node, role, gone int }

// at returns a plan for a time.
func (s *search) at(then time.Time) *gangplan.Plan {
	problem := s.Problem.Problem
	problem.Room = func(node, role int, beside []int) int {
		q := question{node, role, Gone(s.Ends[node], then)}
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

// Gone is how many of some ends are over by a time.
func Gone(ends []time.Time, by time.Time) int {
	after := slices.IndexFunc(ends, func(end time.Time) bool { return end.After(by) })
	if after < 0 {
		return len(ends)
	}
	return after
}

package fair

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestTurns tells who is served next, after what each has used.
func TestTurns(t *testing.T) {
	const ms = time.Millisecond
	type work struct {
		of      string
		took    time.Duration
		waiting []string // meanwhile
	}
	both := []string{"a", "b"}
	for name, tc := range map[string]struct {
		did     []work
		waiting []string
		want    []string
	}{
		"nobody waits":                     {},
		"one":                              {waiting: []string{"a"}, want: []string{"a"}},
		"two that have used nothing":       {waiting: both, want: both},
		"one has used a little":            {did: []work{{"a", 3 * ms, both}}, waiting: both, want: both},
		"one has used much":                {did: []work{{"a", 30 * ms, both}}, waiting: both, want: []string{"b"}},
		"the other as much since":          {did: []work{{"a", 30 * ms, both}, {"b", 28 * ms, both}}, waiting: both, want: both},
		"it used it while no other waited": {did: []work{{"a", time.Hour, []string{"a"}}}, waiting: both, want: both},
		"it goes on since another came":    {did: []work{{"a", time.Hour, []string{"a"}}, {"a", 30 * ms, both}}, waiting: both, want: []string{"b"}},
		"the other had saved up nothing":   {did: []work{{"a", time.Hour, []string{"a"}}, {"b", 30 * ms, both}}, waiting: both, want: []string{"a"}},
		"who has used most waits alone":    {did: []work{{"a", 30 * ms, both}}, waiting: []string{"a"}, want: []string{"a"}},
		"a clock that goes backward":       {did: []work{{"a", -time.Hour, both}}, waiting: both, want: both},
	} {
		t.Run(name, func(t *testing.T) {
			var turns Turns
			for _, work := range tc.did {
				turns.Charge(work.of, work.took)
				turns.NextCallers(work.waiting)
			}
			if got := turns.NextCallers(tc.waiting); !slices.Equal(got, tc.want) {
				t.Errorf("%v are next, want %v", got, tc.want)
			}
		})
	}
}

// TestTurnsAreEqualInTime whatever a piece of work costs, and nothing is kept of callers who owe nothing.
func TestTurnsAreEqualInTime(t *testing.T) {
	var turns Turns
	costs := map[string]time.Duration{"cheap": time.Millisecond, "dear": 40 * time.Millisecond, "between": 7 * time.Millisecond}
	callers := []string{"dear", "cheap", "between"}
	used := map[string]time.Duration{}
	for range 10_000 {
		next := turns.NextCallers(callers)[0]
		turns.Charge(next, costs[next])
		used[next] += costs[next]
	}
	for caller, total := range used {
		if apart := total - used["cheap"]; apart.Abs() > 40*time.Millisecond+slack {
			t.Errorf("%s has used %s, cheap %s", caller, total, used["cheap"])
		}
	}
	turns.Charge("dear", time.Hour) // and is the only one that comes again
	turns.NextCallers([]string{"dear"})
	if len(turns.used) > 0 {
		t.Errorf("%d callers are remembered that owe nothing", len(turns.used))
	}
	for i := range 3 * mostCallers {
		turns.Charge(fmt.Sprint(i), time.Millisecond)
	}
	if len(turns.used) > mostCallers {
		t.Errorf("%d callers are remembered", len(turns.used))
	}
}

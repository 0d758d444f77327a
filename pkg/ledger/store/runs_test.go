package store

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

func TestRuns(t *testing.T) {
	s := opened(t)
	inGang := func(h ledger.Holding, job string) ledger.Holding {
		h.JobUID = job
		return h
	}
	put(t, s,
		held("1", "a", "ada", 2000, 0, 1, 0), inGang(held("2", "a", "ada", 8000, 1, 3, 0), "gang"), inGang(held("3", "a", "ada", 8000, 1, 3, 0), "gang"),
		held("4", "b", "bob", 1000, 2, 4, 0), held("5", "b", "bob", 1000, 2, -1, 0), held("6", "b", "bob", 1000, 0, 2, 5))
	tests := map[string]struct {
		q    RunQuery
		want []string
		more bool
	}{
		"all":                         {RunQuery{From: hour(0), To: hour(9), Most: 10}, []string{"bob 1 GPUs 2h", "ada 16 GPUs 2h", "ada 2 GPUs 1h"}, false},
		"of a namespace":              {RunQuery{Namespaces: []Namespace{{Name: "a"}}, From: hour(0), To: hour(9), Most: 10}, []string{"ada 16 GPUs 2h", "ada 2 GPUs 1h"}, false},
		"of a namespace that was new": {RunQuery{Namespaces: []Namespace{{Name: "a", Begin: hour(0.5)}}, From: hour(0), To: hour(9), Most: 10}, []string{"ada 16 GPUs 2h"}, false},
		"of a time":                   {RunQuery{From: hour(2), To: hour(3), Most: 10}, []string{"ada 16 GPUs 2h"}, false},
		"no more than two":            {RunQuery{From: hour(0), To: hour(9), Most: 2}, []string{"bob 1 GPUs 2h", "ada 16 GPUs 2h"}, true},
		"of a time without any":       {RunQuery{From: hour(6), To: hour(9), Most: 10}, nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			runs, more, err := s.Runs(tc.q)
			var got []string
			for _, run := range runs {
				got = append(got, fmt.Sprintf("%s %d GPUs %gh", run.User, run.GPUs, float64(run.Seconds)/3600))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || more != tc.more || err != nil {
				t.Errorf("more %t, want %t, error %v; runs (-want +got):\n%s", more, tc.more, err, diff)
			}
		})
	}
}

// TestRunsThatAreNotReadWholeAreNotTold: a job of which earlier pods were not read has run for longer than is known. One of which all
// were read is told, however long it was, and whatever of its name was before it.
func TestRunsThatAreNotReadWholeAreNotTold(t *testing.T) {
	s := opened(t)
	of := func(uid, job string, from, to float64) ledger.Holding {
		h := held(uid, "a", "ada", 1000, from, to, 0)
		h.Job, h.JobUID, h.Outcome = job, job, "Succeeded"
		return h
	}
	put(t, s, of("1", "turns", 0, 2), of("2", "turns", 2, 4.5), of("3", "long", 0, 5), of("4", "again", 0, 1), of("5", "again", 3, 6), of("6", "late", 6, 7))
	tests := map[string]struct {
		q    RunQuery
		want []float64 // hours
		more bool
	}{
		"all":                    {RunQuery{From: hour(0), To: hour(9), Most: 10}, []float64{1, 3, 5, 4.5, 1}, false},
		"no more than three":     {RunQuery{From: hour(0), To: hour(9), Most: 3}, []float64{1, 3, 5}, true},
		"since it took turns":    {RunQuery{From: hour(3), To: hour(9), Most: 10}, []float64{1, 3, 5}, false},
		"no more than the first": {RunQuery{From: hour(0), To: hour(9), Most: 1}, []float64{1}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			runs, more, err := s.Runs(tc.q)
			var got []float64
			for _, run := range runs {
				got = append(got, float64(run.Seconds)/3600)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || more != tc.more || err != nil {
				t.Errorf("more %t, want %t, error %v; hours (-want +got):\n%s", more, tc.more, err, diff)
			}
		})
	}
}

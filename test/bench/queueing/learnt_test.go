package queueing

import (
	"bytes"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLearnt: on two nodes of which one is full for ten minutes a gang waits for both, and jobs that may go before it.
func TestLearnt(t *testing.T) {
	behindAGang := []request{{0, 10, 8}, {1, 10, 16}, {1, 9, 4}, {2, 10, 4}}
	for name, tc := range map[string]struct {
		policy Policy
		jobs   []request
		want   []int
	}{
		// Of those of ten minutes none is taken to end by 10, when the gang is to start.
		"the gang is promised its start":                {Learnt(Bets{Quantile: 0.9}), lessons(behindAGang...), []int{1000, 1010, 1020, 1020}},
		"nobody knows anything, and nobody is promised": {Learnt(Bets{Quantile: 0.9}), behindAGang, []int{0, 12, 1, 2}},
		// The first runs for an hour, which nobody knew: at 10 it is unknown, as none has run for as long.
		"it runs for longer than any":          {Learnt(Bets{Quantile: 0.9}), lessons(request{0, 60, 8}, request{1, 10, 16}, request{11, 30, 4}), []int{1000, 1060, 1011}},
		"the shortest goes first":              {Learnt(Bets{Quantile: 0.9, Shortest: true}), lessons(request{0, 10, 16}, request{1, 10, 16}, request{2, 10, 8}), []int{1000, 1010, 1020}},
		"the oldest starts when there is room": {Learnt(Bets{Quantile: 0.5, Shortest: true}), lessons(request{0, 10, 8}, request{1, 10, 8}), []int{1000, 1001}},
	} {
		t.Run(name, func(t *testing.T) {
			got := starts(replay(t, jobsOf(tc.jobs...), 2, tc.policy))
			if diff := cmp.Diff(tc.want, got[len(got)-len(tc.want):]); diff != "" {
				t.Errorf("they start (-want +got):\n%s", diff)
			}
		})
	}
}

// TestALargeJobIsPromised: two nodes have one GPU free until ten minutes are over. Behind a small job comes one that needs both nodes, and one
// that takes that GPU for a hundred minutes, as all of its size did.
func TestALargeJobIsPromised(t *testing.T) {
	past := lessons()
	for range 25 {
		past = append(past, request{300, 100, 1})
	}
	full := []request{{1000, 10, 4}, {1000, 10, 4}, {1000, 10, 4}, {1000, 10, 3}}
	jobs := slices.Concat(past, full, []request{{1001, 10, 4}, {1002, 10, 16}, {1003, 100, 1}})
	for name, tc := range map[string]struct {
		bets Bets
		want []int
	}{
		"to the oldest alone, and the last starts at once": {Bets{Quantile: 0.9}, []int{1010, 1103, 1003}},
		"to a large one, too, and the last waits":          {Bets{Quantile: 0.9, Large: 1}, []int{1010, 1020, 1030}},
		"to one of each, where there are not as many":      {Bets{Quantile: 0.9, Large: 5}, []int{1010, 1020, 1030}},
		"the large one counts as older":                    {Bets{Quantile: 0.9, Ahead: 10 * time.Minute}, []int{1020, 1010, 1020}},
		"but as younger than what waits for longer":        {Bets{Quantile: 0.9, Large: 1, Ahead: 30 * time.Second}, []int{1010, 1020, 1030}},
	} {
		t.Run(name, func(t *testing.T) {
			got := starts(replay(t, jobsOf(jobs...), 2, Learnt(tc.bets)))
			if diff := cmp.Diff(tc.want, got[len(got)-len(tc.want):]); diff != "" {
				t.Errorf("they start (-want +got):\n%s", diff)
			}
		})
	}
}

// TestLearningIsWorthIt replays the whole trace with those that go by the shortest: the page has what came out, and two aims are met, and all
// three where large jobs are promised, too.
func TestLearningIsWorthIt(t *testing.T) {
	if testing.Short() {
		t.Skip("replays the whole trace")
	}
	policies, err := Select([]string{"learnt-short", "learnt-large"})
	if err != nil {
		t.Fatal(err)
	}
	reports := reportsOf(t, phillyJobs(t), Study{Nodes: []int{80}, Policies: policies})
	page, err := os.ReadFile("../../../docs/benchmarks/queueing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range Tables(reports, nil) {
		for _, row := range table.Rows {
			if !bytes.Contains(page, []byte(line(row)+"\n")) {
				t.Errorf("docs/benchmarks/queueing.md lacks %q under %q: run make bench-queueing-learnt", line(row), table.Title)
			}
		}
	}
	for _, report := range reports {
		if delay := report.Metrics.Delay; delay.Avg > 3 || delay.Max > 80 {
			t.Errorf("%s: jobs wait for %.2f hours and at most for %.0f, want at most 3 and 80", report.Policy, delay.Avg, delay.Max)
		}
	}
	if large := reports[1].Metrics.DelayBySize[">8"]; large.P99 > 60 {
		t.Errorf("of the large jobs one in a hundred waits for %.0f hours, want at most 60", large.P99)
	}
}

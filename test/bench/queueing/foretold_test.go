package queueing

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lessons are jobs of ten minutes on an empty cluster, long before the others: enough to learn from.
func lessons(then ...request) []request {
	out := make([]request, 0, 25+len(then))
	for i := range 25 {
		out = append(out, request{11 * i, 10, 4})
	}
	for _, r := range then {
		out = append(out, request{1000 + r.submit, r.runtime, r.gpus})
	}
	return out
}

// TestForetell: what is said when a job arrives rests on what had ended by then, and is compared with what came.
func TestForetell(t *testing.T) {
	jobs := jobsOf(lessons(request{0, 10, 8}, request{0, 10, 8}, request{1, 10, 8})...)
	told, err := Foretell(context.Background(), jobs, NewCluster(2, 1), Backfill(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !told[0].Known || told[0].Earliest != minutes(9) || told[0].Latest != minutes(9) || told[0].Waited != minutes(9) || !told[0].Holds() {
		t.Errorf("told %+v, want of the last that it starts after 9 minutes", told)
	}
	told, err = Foretell(context.Background(), jobsOf(request{0, 10, 8}, request{1, 10, 8}, request{2, 5, 8}), NewCluster(1, 1), FIFO(), 2)
	if err != nil || len(told) != 1 || told[0].Known || told[0].Holds() || told[0].Waited != minutes(18) {
		t.Errorf("told %+v, %v, want of job 2 that nothing is known", told, err)
	}
	if _, err := Foretell(context.Background(), jobsOf(request{0, 1, 9}), NewCluster(1, 1), FIFO(), 1); err == nil {
		t.Error("a job larger than the cluster is replayed")
	}
}

// TestCalibration counts what held, of each half for itself.
func TestCalibration(t *testing.T) {
	of := func(from, to, waited int) Foretold {
		f := Foretold{Job: jobsOf(request{0, 1, 8})[0], Waited: minutes(waited)}
		f.Earliest, f.Latest, f.Known = minutes(from), minutes(to), true
		return f
	}
	got := coverages([]Foretold{of(0, 60, 0), of(0, 60, 60), of(60, 240, 59), of(60, 240, 241), of(60, 90, 75)})
	want := Coverage{Size: "1-8", Jobs: 5, Holds: 3, TooEarly: 1, TooLate: 1, Width: 1, Waited: 1}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("coverage (-want +got):\n%s", diff)
	}
	if got[1].Jobs != 0 || got[3].Jobs != 5 || got[4].Jobs != 0 {
		t.Errorf("of jobs of one GPU there are %d, of eight %d", got[1].Jobs, got[3].Jobs)
	}
	halves, err := Calibrate(context.Background(), jobsOf(request{0, 10, 8}, request{1, 10, 8}, request{2, 5, 8}), 1, 1, Policies[0], 1)
	if err != nil || len(halves) != 2 || halves[0].Asked != 1 || halves[1].Asked != 1 || halves[1].Unknown != 1 {
		t.Errorf("halves %+v, %v", halves, err)
	}
	if _, err := Calibrate(context.Background(), nil, 0, 1, Policies[0], 1); err == nil {
		t.Error("a cluster of no nodes is replayed")
	}
}

// TestIntervalsHold asks of a part of those that the page has: of both halves nine of ten hold, or more.
func TestIntervalsHold(t *testing.T) {
	if testing.Short() {
		t.Skip("replays the whole trace")
	}
	halves, err := Calibrate(context.Background(), phillyJobs(t), 80, 4, Named{Name: "backfill", New: Backfill}, 200)
	if err != nil {
		t.Fatal(err)
	}
	for _, half := range halves {
		c := half.Sizes[0]
		if share := 100 * c.Holds / max(c.Jobs, 1); c.Jobs < 80 || share < 85 || share > 99 {
			t.Errorf("half %d: of %d intervals %d %% hold: %+v", half.Half, c.Jobs, share, c)
		}
	}
}

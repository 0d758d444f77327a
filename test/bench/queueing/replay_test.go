package queueing

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// policyFunc is a policy that keeps no queue.
type policyFunc func(s *Session) error

func (policyFunc) Submit(*trace.Job)           {}
func (f policyFunc) Schedule(s *Session) error { return f(s) }

func TestReplayRefusesWhatAPolicyMayNotDo(t *testing.T) {
	gang := jobsOf(request{0, 10, 16})
	for name, tc := range map[string]struct {
		bind func(s *Session) error
		want string
	}{
		"two pods of a whole node on the same": {func(s *Session) error { return s.Bind(gang[0], 1, 1) }, "node 1 has no 8 GPUs free"},
		"a node that is not there":             {func(s *Session) error { return s.Bind(gang[0], 3) }, "node 3 has no 8 GPUs free"},
		"more pods than the job has":           {func(s *Session) error { return s.Bind(gang[0], 0, 1, 2) }, "it has 2 pods to bind, not 3"},
		"no pod at all":                        {func(s *Session) error { return s.Bind(gang[0]) }, "it has 2 pods to bind, not 0"},
		"a job that runs": {func(s *Session) error {
			return errors.Join(s.Bind(gang[0], 0, 1), s.Bind(gang[0], 2))
		}, "binding job 0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Replay(context.Background(), gang, NewCluster(3, 1), policyFunc(tc.bind))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestReplayRefusesJobsThatCannotBe(t *testing.T) {
	backwards := jobsOf(request{5, 1, 1}, request{4, 1, 1})
	for name, tc := range map[string]struct {
		jobs []*trace.Job
		want string
	}{
		"a gang larger than the cluster": {jobsOf(request{0, 1, 20}), "job 0 asks 20 GPUs, and the cluster has 16: use at least 3 nodes"},
		"jobs out of order":              {backwards, "must be in order of submission"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Replay(context.Background(), tc.jobs, NewCluster(2, 1), FIFO())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestReplayEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Replay(ctx, jobsOf(request{0, 1, 1}), NewCluster(1, 1), FIFO()); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the context", err)
	}
}

func TestMeasure(t *testing.T) {
	jobs := jobsOf(request{0, 60, 8}, request{0, 120, 16}, request{60, 60, 1})
	jobs[2].VC = "b"
	// Pod by pod on two nodes: job 0 runs from 0 to 60, while job 1 holds the other node; it runs from 60 to 180.
	got := Measure(replay(t, jobs, 2, PodByPod()))
	want := Metrics{
		Delay: Spread{Jobs: 3, Avg: 1, P50: 1, P99: 2, Max: 2},
		DelayBySize: map[string]Spread{
			"1": {Jobs: 1, Avg: 2, P50: 2, P99: 2, Max: 2}, "2-7": {},
			"8": {Jobs: 1}, ">8": {Jobs: 1, Avg: 1, P50: 1, P99: 1, Max: 1},
			">=8": {Jobs: 2, Avg: 0.5, P50: 0, P99: 1, Max: 1},
		},
		Completion: Spread{Jobs: 3, Avg: 7. / 3, P50: 3, P99: 3, Max: 3},
		Slowdown:   (1 + 1.5 + 3) / 3.,
		// The window is the hour from the first to the last submission: 8 of 16 GPUs run, the others are held.
		BusyPercent: 50, HeldGPUHours: 8, HeldPercent: 50,
		// a: (8 + 32) of (8 + 48) GPU-hours, b: 1 of 3.
		Fairness: jain([]float64{40. / 56, 1. / 3}),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestJain(t *testing.T) {
	for name, tc := range map[string]struct {
		shares []float64
		want   float64
	}{
		"all alike":                  {[]float64{0.5, 0.5, 0.5, 0.5}, 1},
		"one has it all":             {[]float64{1, 0, 0, 0}, 0.25},
		"nobody to be compared with": {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := jain(tc.shares); got != tc.want {
				t.Errorf("index is %v, want %v", got, tc.want)
			}
		})
	}
}

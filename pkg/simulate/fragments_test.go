package simulate_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// TestFragmented has figures that can be worked out by hand: the mean over the pods of the workload of what each could
// not use of what is free.
func TestFragmented(t *testing.T) {
	tests := map[string]struct {
		nodes []trace.Node
		pods  []trace.Pod
		want  float64
	}{
		"an idle node suits all": {nodes: machines(1, 4), pods: []trace.Pod{asking("none", 0, 0)}, want: 0},
		"two cards are free, of no use to half of the pods": {
			nodes: machines(1, 4), pods: []trace.Pod{asking("a", 2, 1000), asking("b", 4, 1000)}, want: 100. * 2 / 4 / 2,
		},
		"what is left of a card is too little": {
			nodes: machines(1, 2), pods: []trace.Pod{asking("a", 1, 600)}, want: 100 * 0.4 / 2,
		},
		"no CPU is left beside the card": {
			nodes: []trace.Node{{Name: "n", MilliCPU: 1500, MemoryMiB: 1 << 19, GPUs: 2, Model: "T4"}},
			pods:  []trace.Pod{asking("a", 1, 1000)}, want: 50,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			result := run(t, simulate.Cluster{Nodes: simulate.NodesFromTrace(tc.nodes)}, simulate.ArrivalsFromTrace(tc.pods))
			if diff := result.FragmentedPercent - tc.want; diff < -0.001 || diff > 0.001 {
				t.Errorf("%.3f %% are fragmented, want %.3f", result.FragmentedPercent, tc.want)
			}
		})
	}
}

// TestPlots wants the axes that suit the pods: what was asked for where they stay, time and waits where they end.
func TestPlots(t *testing.T) {
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 2))}
	stay := simulate.ArrivalsFromTrace([]trace.Pod{asking("a", 2, 1000), asking("b", 1, 1000)})
	end := simulate.ArrivalsFromTrace([]trace.Pod{asking("a", 2, 1000), asking("b", 1, 1000)})
	for i := range end {
		end[i].Lifetime = time.Minute
	}
	tests := map[string]struct {
		arrivals []simulate.Arrival
		plots    int
		want     []string
	}{
		"pods that stay": {stay, 2, []string{"GPUs asked for (% of all GPUs)", "Free GPUs that the pods"}},
		"pods that end":  {end, 3, []string{"time since the beginning (hours)", "How long pods waited", "median</th>", "60.0 s"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			results := []*simulate.Result{run(t, cluster, tc.arrivals)}
			if plots := simulate.DrawPlots(results); len(plots) != tc.plots {
				t.Fatalf("%d plots, want %d", len(plots), tc.plots)
			}
			var out bytes.Buffer
			if err := simulate.WriteHTML(&out, results); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in the page", want)
				}
			}
		})
	}
}

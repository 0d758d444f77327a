package simulate_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"g8s.host/gpu-scheduler/pkg/defrag"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

// TestMoves has 8 GPUs be free on two nodes and not on one when a pod of 8 comes. One comes free by itself after that.
func TestMoves(t *testing.T) {
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(2, 8))}
	arrivals := simulate.ArrivalsFromTrace([]trace.Pod{
		asking("five", 5, 1000), asking("four", 4, 1000), asking("three", 3, 1000), asking("one", 1, 1000), asking("eight", 8, 1000),
	})
	arrivals[0].Lifetime = 2 * time.Hour
	arrivals[3].Lifetime = 5 * time.Hour
	arrivals[4].At = 3 * time.Hour
	for name, tc := range map[string]struct {
		moves  *simulate.Moves
		placed int
		want   []simulate.Move
	}{
		"nobody is moved unasked": {placed: 4},
		"one pod moves": {
			moves: &simulate.Moves{Limits: defrag.Limits{Moves: 2, MinRun: time.Hour}, Every: time.Hour}, placed: 5,
			want: []simulate.Move{{Pod: "trace/three", From: "n0", To: "n1", For: "trace/eight", MadeRoom: true, At: 5 * 3600}},
		},
		"nobody has run for long enough": {
			moves: &simulate.Moves{Limits: defrag.Limits{Moves: 2, MinRun: 24 * time.Hour}, Every: time.Hour}, placed: 4,
		},
	} {
		t.Run(name, func(t *testing.T) {
			result, err := simulate.Run(t.Context(), cluster, arrivals, shipped(t), simulate.Options{Moves: tc.moves})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, result.Moves, cmpopts.IgnoreUnexported(simulate.Move{})); diff != "" {
				t.Errorf("moves (-want +got):\n%s", diff)
			}
			if result.Placed != tc.placed {
				t.Errorf("%d pods got a node, want %d", result.Placed, tc.placed)
			}
			var table bytes.Buffer
			if err := simulate.WriteTable(&table, []*simulate.Result{result}); err != nil {
				t.Fatal(err)
			}
			if says := strings.Contains(table.String(), "1 for 1 x 8 GPU(s)"); says != (tc.want != nil) {
				t.Errorf("the table is\n%s", table.String())
			}
		})
	}
}

package process

import (
	"testing"
	"time"

	"g8s.host/gpu-scheduler/test/bench/load"
)

// BenchmarkTakeover measures how a standby goes on when the leader is killed among 5,000 nodes, beside the stock scheduler. Both have a lease
// of 4 s, which has to end first.
//
//	go test ./test/bench/load/process -run '^$' -bench Takeover -benchtime 3x
func BenchmarkTakeover(b *testing.B) {
	const nodes, pods = 5000, 4000
	lab := newLab(b, load.Fleet{Nodes: nodes, Pools: 4})
	var first, rate [2][]float64
	for round := 0; b.Loop(); round++ {
		for turn := range oursAndStock {
			i := (turn + round) % 2
			result, err := lab.Takeover(b.Context(), oursAndStock[i], pods)
			if err != nil {
				b.Fatal(err)
			}
			first[i], rate[i] = append(first[i], result.FirstBinding.Seconds()), append(rate[i], result.PodsPerSecond)
		}
	}
	for i, s := range oursAndStock {
		b.ReportMetric(median(first[i]), s.Name+"-s")
		b.ReportMetric(median(rate[i]), s.Name+"-pods/s")
	}
	b.ReportMetric(median(first[0])/median(first[1]), "ours/stock-s")
	b.ReportMetric(median(rate[0])/median(rate[1]), "ours/stock-rate")
}

// TestTheStandbyBindsAfterASilence: what the dead leader bound is seen for more than a second here.
func TestTheStandbyBindsAfterASilence(t *testing.T) {
	died := time.Unix(100, 0)
	before := silence{died}
	var first time.Duration
	for _, after := range []time.Duration{300, 900, 1100, 1900, 6000, 6100} {
		if at := died.Add(after * time.Millisecond); before.ends(at) {
			first = at.Sub(died)
			break
		}
	}
	if want := 6 * time.Second; first != want {
		t.Errorf("the standby's first binding came after %s, want %s", first, want)
	}
}

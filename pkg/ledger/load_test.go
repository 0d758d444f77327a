package ledger

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"
)

func TestEfficiency(t *testing.T) {
	const hour = time.Hour
	type part struct {
		milli      int64
		held, life time.Duration
		load       Load
	}
	tests := map[string]struct {
		parts []part
		want  *Efficiency
	}{
		"nothing was held":       {},
		"nothing was measured":   {parts: []part{{milli: 1000, held: hour, life: hour}}, want: &Efficiency{}},
		"all of it was measured": {parts: []part{{1000, hour, hour, Load{hour, hour / 4}}}, want: &Efficiency{Utilization: ptr.To(25.0), Measured: 100}},
		"GPUs that did nothing are 0, which is known": {
			parts: []part{{1000, hour, hour, Load{Measured: hour}}}, want: &Efficiency{Utilization: ptr.To(0.0), Measured: 100},
		},
		"what is unknown is neither busy nor idle": {
			parts: []part{{1000, hour, hour, Load{hour / 2, hour / 2}}}, want: &Efficiency{Utilization: ptr.To(100.0), Measured: 50},
		},
		"who holds more counts for more": {
			parts: []part{{3000, hour, hour, Load{hour, hour}}, {1000, hour, hour, Load{Measured: hour}}},
			want:  &Efficiency{Utilization: ptr.To(75.0), Measured: 100},
		},
		"who holds for longer counts for more": {
			parts: []part{{1000, 3 * hour, 3 * hour, Load{3 * hour, 3 * hour}}, {1000, hour, hour, Load{}}},
			want:  &Efficiency{Utilization: ptr.To(100.0), Measured: 75},
		},
		"a part of a life is as busy as all of it": {
			parts: []part{{1000, hour, 4 * hour, Load{4 * hour, hour}}}, want: &Efficiency{Utilization: ptr.To(25.0), Measured: 100},
		},
		"no more was measured than there was": {
			parts: []part{{1000, hour, hour, Load{2 * hour, 2 * hour}}}, want: &Efficiency{Utilization: ptr.To(100.0), Measured: 100},
		},
		"a life that is not yet measured": {parts: []part{{1000, hour, 0, Load{}}}, want: &Efficiency{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var sum EfficiencySum
			for _, p := range tc.parts {
				sum.Add(p.milli, p.held, p.life, p.load)
			}
			if diff := cmp.Diff(tc.want, sum.Efficiency(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("efficiency (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSumsTellHowBusyGPUsWere within the time that is asked about, of those that still run up to what is known.
func TestSumsTellHowBusyGPUsWere(t *testing.T) {
	sums := NewUsageSummer([]Key{ByUser}, at(0), at(7200))
	sums.Measured = at(3600)
	ended := &Row{From: at(0).Unix(), To: at(1000).Unix(), Milli: 1000, User: []byte("ada"), Load: Load{1000 * time.Second, 500 * time.Second}}
	running := &Row{From: at(0).Unix(), Milli: 1000, User: []byte("bob"), Load: Load{1800 * time.Second, 1800 * time.Second}}
	for _, row := range []*Row{ended, running} {
		sums.Add(row)
	}
	items, rest := sums.Sums(1)
	if diff := cmp.Diff(&Efficiency{Utilization: ptr.To(100.0), Measured: 50}, items[0].Efficiency); diff != "" {
		t.Errorf("of who runs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Efficiency{Utilization: ptr.To(50.0), Measured: 100}, rest.Efficiency); diff != "" {
		t.Errorf("of who has ended (-want +got):\n%s", diff)
	}
	sums = NewUsageSummer([]Key{ByUser}, at(0), at(7200))
	sums.Add(ended)
	if items, _ := sums.Sums(1); items[0].Efficiency != nil {
		t.Errorf("a ledger that measures nothing says %v", items[0].Efficiency)
	}
}

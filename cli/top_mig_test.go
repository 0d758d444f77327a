package cli

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// TestTheColumnOfSlicesIsThereWhereThereAreAny: most clusters have none.
func TestTheColumnOfSlicesIsThereWhereThereAreAny(t *testing.T) {
	type row = struct{ mig string }
	v := &topView[row]{columns: []column[row]{
		{header: "POOL", value: func(row) string { return "" }}, {header: migHeader, value: func(r row) string { return r.mig }},
	}}
	if with, without := len(v.shown([]row{{}, {"1g.10gb 1/7"}})), len(v.shown([]row{{}, {}})); with != 2 || without != 1 {
		t.Errorf("with slices there are %d columns, without %d", with, without)
	}
}

func TestWhatAJobHolds(t *testing.T) {
	slices := []inventory.AskedProfile{{Profile: "1g.10gb", Count: 2}}
	for want, job := range map[string]usage.Job{
		"4": {GPUs: 4}, "2x 1g.10gb": {MIG: slices}, "1, 2x 1g.10gb": {GPUs: 1, MIG: slices},
	} {
		if got := jobHolds(job); got != want {
			t.Errorf("%+v holds %q, want %q", job, got, want)
		}
	}
}

func TestTheTotalNamesSlices(t *testing.T) {
	total := usage.Total{MIG: []inventory.ProfileCount{{Profile: "1g.10gb", Allocatable: 7, Used: 3}}}
	if text := totalLine(total).String(); !strings.HasSuffix(text, "\nMIG slices held: 1g.10gb 3/7") || strings.Contains(totalLine(usage.Total{}).String(), "MIG") {
		t.Errorf("the total is %q", text)
	}
}

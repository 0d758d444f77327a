package cli

import (
	"slices"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// TestTheColumnOfSlicesIsThereWhereThereAreAny: most clusters have none.
func TestTheColumnOfSlicesIsThereWhereThereAreAny(t *testing.T) {
	sliced := []inventory.ProfileCount{{Profile: "1g.10gb", Allocatable: 7, Used: 1, Free: 6}}
	for want, rows := range map[bool][]inventory.Node{true: {{Name: "whole"}, {Name: "cut", MIG: sliced}}, false: {{Name: "whole"}}} {
		for _, wide := range []bool{false, true} {
			text := strings.Join(tableRows(rows, nodeColumns(), tableStyle{wide: wide}), "")
			if strings.Contains(text, "MIG-FREE") != want || strings.Contains(text, "1g.10gb 6/7") != want {
				t.Errorf("wide %t, slices %t:\n%s", wide, want, text)
			}
		}
	}
}

// TestAWatchKeepsItsColumns, whatever the rows that change later have: there is one header for all of them.
func TestAWatchKeepsItsColumns(t *testing.T) {
	sliced := []inventory.ProfileCount{{Profile: "1g.10gb", Allocatable: 7, Free: 6}}
	long := strings.Repeat("n", 60) // which leaves no room for columns that are spare
	type rows = []inventory.Node
	for name, tables := range map[string]struct{ first, second rows }{
		"slices go":                 {rows{{Name: "cut", MIG: sliced}}, rows{{Name: "whole"}}},
		"slices come":               {rows{{Name: "whole"}}, rows{{Name: "cut", MIG: sliced}}},
		"a wide row comes":          {rows{{Name: "cut", MIG: sliced}}, rows{{Name: long}}},
		"the first rows are wide":   {rows{{Name: long, MIG: sliced}}, rows{{Name: "whole"}}},
		"a wide row with some come": {rows{{Name: "whole"}}, rows{{Name: long, MIG: sliced}}},
	} {
		style := tableStyle{width: 100, sticky: &stickyColumns{}}
		first := chosenColumns(tables.first, nodeColumns(), style)
		second := chosenColumns(tables.second, nodeColumns(), style)
		if !slices.EqualFunc(first, second, func(a, b column[inventory.Node]) bool { return a.header == b.header }) {
			t.Errorf("%s: %d columns at first and %d then", name, len(first), len(second))
		}
	}
}

// TestNodesWithSlicesFitInATerminal of 100 columns, with usual names and two profiles.
func TestNodesWithSlicesFitInATerminal(t *testing.T) {
	node := inventory.Node{Name: "train-a100-0017", Pool: "training-pool", GPUType: "A100-80G", Ready: true, MemoryPerGPU: "80Gi", Interconnect: "nvlink",
		MIG: []inventory.ProfileCount{{Profile: "1g.10gb", Allocatable: 14, Free: 12}, {Profile: "3g.40gb", Allocatable: 4, Free: 2}}}
	for _, line := range tableRows([]inventory.Node{node}, nodeColumns(), tableStyle{width: 100}) {
		if len(line) > 101 {
			t.Errorf("%d columns: %s", len(line)-1, line)
		}
		if strings.Contains(line, "train") && !strings.Contains(line, "1g.10gb 12/14, 3g.40gb 2/4") {
			t.Errorf("the slices are cut: %s", line)
		}
	}
}

func TestWhatAJobHolds(t *testing.T) {
	asked := []inventory.AskedProfile{{Profile: "1g.10gb", Count: 2}}
	for want, job := range map[string]usage.Job{
		"4": {GPUs: 4}, "2x 1g.10gb": {MIG: asked}, "1, 2x 1g.10gb": {GPUs: 1, MIG: asked},
	} {
		if got := jobHoldings(job); got != want {
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

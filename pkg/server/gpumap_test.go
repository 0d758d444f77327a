package server

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/usage"
)

// fleetRows are nodes of 8 GPUs, each held by jobs of a size.
func fleetRows(nodes, perJob int) []mapRow {
	rows := make([]mapRow, nodes)
	for i := range rows {
		rows[i] = mapRow{
			name: fmt.Sprintf("gpu-node-%04d", i), pool: fmt.Sprintf("pool-%d", i%5), gpuType: "H100-80G", rack: fmt.Sprintf("rack-%02d", i/16), status: "active",
			states: "uuuuuuuu", health: make([]string, 8), holders: make([]usage.Holder, 8),
		}
		for gpu := range rows[i].holders {
			job := fmt.Sprintf("llama-train-%05d", i*8/perJob+gpu/perJob)
			rows[i].holders[gpu] = usage.Holder{Namespace: fmt.Sprintf("team-%02d", i%20), Job: job, Pod: job + "-0"}
		}
	}
	return rows
}

// TestTheMapIsSmall: a thousand nodes of 8 GPUs take less than 100 KB, as they are where jobs have half a node, and packed where each GPU has a job of its own.
func TestTheMapIsSmall(t *testing.T) {
	for perJob, pack := range map[int]bool{8: false, 4: false, 1: true} {
		t.Run(fmt.Sprintf("%d GPUs a job", perJob), func(t *testing.T) {
			rows := fleetRows(1000, perJob)
			body, err := json.Marshal(buildMap(rows, countFits(rows), func(string) bool { return true }, time.Unix(0, 0)))
			if err != nil {
				t.Fatal(err)
			}
			if pack {
				if body, err = compressAnswer(body); err != nil {
					t.Fatal(err)
				}
			}
			if len(body) > 100_000 {
				t.Errorf("the map takes %d bytes", len(body))
			}
		})
	}
}

func TestBuildMap(t *testing.T) {
	mine, theirs := usage.Holder{Namespace: "mine", Job: "a", Pod: "a-0"}, usage.Holder{Namespace: "theirs", Job: "b", Pod: "b-0"}
	rows := []mapRow{
		{name: "n1", pool: "train", gpuType: "A", status: "active", free: 1, states: "uufu", health: make([]string, 4), holders: []usage.Holder{mine, mine, {}, theirs}},
		{name: "n2", pool: "train", gpuType: "A", status: "cordoned", states: "xh", health: []string{"XID79", ""}, holders: []usage.Holder{{}, {Namespace: "mine", Pod: "p"}}},
	}
	got := buildMap(rows, countFits(rows), func(namespace string) bool { return namespace == "mine" }, time.Time{})
	want := &GPUMap{
		Nodes: []string{"n1", "n2"}, Pools: []string{"train"}, Pool: []int{0, 0}, Types: []string{"A"}, Type: []int{0, 0}, Racks: []string{""}, Rack: []int{0, 0},
		Statuses: []string{"active", "cordoned"}, Status: []int{0, 1}, Free: []int64{1, 0}, GPUs: []string{"uufu", "xh"}, Faults: []Fault{{Node: 1, GPU: 0, Health: "XID79"}},
		Namespaces: []string{"mine"}, HolderNamespace: []int{0, 0}, HolderJob: []string{"a", "p"}, Held: [][]int{{0, 2, -1, 2}, {-1, 1, 1, 1}},
		Fits: []PoolFits{{Pool: "train", Free: 1, Pods: []int64{1, 0, 0, 0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the map (-want +got):\n%s", diff)
	}
}

func TestCountFits(t *testing.T) {
	row := func(pool string, free int64) mapRow { return mapRow{pool: pool, free: free} }
	got := countFits([]mapRow{row("b", 8), row("a", 3), row("b", 5), row("a", 0), row("c", 0)})
	want := []PoolFits{
		{Pool: "a", Free: 3, Pods: []int64{3, 1, 0, 0}}, {Pool: "b", Free: 13, Pods: []int64{13, 6, 3, 1}}, {Pool: "c", Pods: []int64{0, 0, 0, 0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what fits (-want +got):\n%s", diff)
	}
}

func TestChangedRows(t *testing.T) {
	before := fleetRows(3, 8)
	tests := map[string]struct {
		change func([]mapRow) []mapRow
		want   []string
		whole  bool
	}{
		"nothing":           {change: func(rows []mapRow) []mapRow { return rows }},
		"a GPU is free":     {change: func(rows []mapRow) []mapRow { rows[1].states = "uuuuuuuf"; return rows }, want: []string{"gpu-node-0001"}},
		"a holder":          {change: func(rows []mapRow) []mapRow { rows[2].holders[0].Job = "other"; return rows }, want: []string{"gpu-node-0002"}},
		"a node has gone":   {change: func(rows []mapRow) []mapRow { return rows[:2] }, whole: true},
		"one for another":   {change: func(rows []mapRow) []mapRow { rows[0].name = "z"; return rows }, whole: true},
		"a GPU falls ill":   {change: func(rows []mapRow) []mapRow { rows[0].health[3] = "XID79"; return rows }, want: []string{"gpu-node-0000"}},
		"a node is closed":  {change: func(rows []mapRow) []mapRow { rows[0].status = "cordoned"; return rows }, want: []string{"gpu-node-0000"}},
		"it goes to a pool": {change: func(rows []mapRow) []mapRow { rows[0].pool = "new"; return rows }, want: []string{"gpu-node-0000"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			changed, ok := changedRows(before, tc.change(fleetRows(3, 8)))
			var got []string
			for _, row := range changed {
				got = append(got, row.name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || ok == tc.whole {
				t.Errorf("ok is %t; changed (-want +got):\n%s", ok, diff)
			}
		})
	}
}

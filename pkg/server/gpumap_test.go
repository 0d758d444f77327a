package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/usage"
	"g8s.host/gpu-scheduler/test/fixture"
)

// fleetRows are nodes of 8 GPUs, each held by jobs of a size.
func fleetRows(nodes, perJob int) []mapRow {
	rows := make([]mapRow, nodes)
	for i := range rows {
		rows[i] = mapRow{
			name: fmt.Sprintf("gpu-node-%04d", i), pool: fmt.Sprintf("pool-%d", i%5), gpuType: "H100-80G", rack: fmt.Sprintf("rack-%02d", i/16), status: "active",
			total: 8, used: 8, states: "uuuuuuuu", health: make([]string, 8), holders: make([][]usage.Holder, 8),
		}
		for gpu := range rows[i].holders {
			job := fmt.Sprintf("llama-train-%05d", i*8/perJob+gpu/perJob)
			rows[i].holders[gpu] = []usage.Holder{{Namespace: fmt.Sprintf("team-%02d", i%20), Job: job, Pod: job + "-0"}}
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
		{
			name: "n1", pool: "train", gpuType: "A", status: "active", total: 4, used: 3, free: 1, room: 1, states: "usfu", health: make([]string, 4),
			holders: [][]usage.Holder{{mine}, {theirs, mine}, nil, {theirs}},
		},
		{
			name: "n2", pool: "train", gpuType: "A", status: "cordoned", total: 1, used: 1, states: "xh", health: []string{"XID79", ""}, numbers: []int{3, 5},
			holders: [][]usage.Holder{nil, {{Namespace: "mine", Pod: "p"}}},
		},
	}
	got := buildMap(rows, countFits(rows), func(namespace string) bool { return namespace == "mine" }, time.Time{})
	want := &GPUMap{
		Nodes: []string{"n1", "n2"}, Pools: []string{"train"}, Pool: []int{0, 0}, Types: []string{"A"}, Type: []int{0, 0}, Racks: []string{""}, Rack: []int{0, 0},
		Statuses: []string{"active", "cordoned"}, Status: []int{0, 1}, Faults: []Fault{{Node: 1, GPU: 0, Health: "XID79"}},
		Free: []int64{1, 0}, GPUs: []string{"usfu", "xh"}, Counts: []NodeCounts{{Node: 1, Total: 1, Used: 1}}, Numbers: []NodeNumbers{{Node: 1, Numbers: []int{3, 5}}},
		Namespaces: []string{"mine"}, HolderNamespace: []int{0, 0}, HolderJob: []string{"a", "p"}, Held: [][]int{{0, 2, -1, 2}, {-1, 1, 1, 1}},
		Fits: []PoolFits{{Pool: "train", Free: 1, Pods: []int64{1, 0, 0, 0}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the map (-want +got):\n%s", diff)
	}
}

func TestCountFits(t *testing.T) {
	row := func(pool string, free int64) mapRow { return mapRow{pool: pool, free: free, room: free} }
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
		"nothing":            {change: func(rows []mapRow) []mapRow { return rows }},
		"a GPU is free":      {change: func(rows []mapRow) []mapRow { rows[1].states = "uuuuuuuf"; return rows }, want: []string{"gpu-node-0001"}},
		"a holder":           {change: func(rows []mapRow) []mapRow { rows[2].holders[0][0].Job = "other"; return rows }, want: []string{"gpu-node-0002"}},
		"it is counted anew": {change: func(rows []mapRow) []mapRow { rows[1].room = 1; return rows }, want: []string{"gpu-node-0001"}},
		"a node has gone":    {change: func(rows []mapRow) []mapRow { return rows[:2] }, whole: true},
		"one for another":    {change: func(rows []mapRow) []mapRow { rows[0].name = "z"; return rows }, whole: true},
		"a GPU falls ill":    {change: func(rows []mapRow) []mapRow { rows[0].health[3] = "XID79"; return rows }, want: []string{"gpu-node-0000"}},
		"a node is closed":   {change: func(rows []mapRow) []mapRow { rows[0].status = "cordoned"; return rows }, want: []string{"gpu-node-0000"}},
		"it goes to a pool":  {change: func(rows []mapRow) []mapRow { rows[0].pool = "new"; return rows }, want: []string{"gpu-node-0000"}},
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

// TestMapRows counts GPUs as gpuctl does where each entry is a part of one, and has those in MIG mode in their places.
func TestMapRows(t *testing.T) {
	pod := func(name, node string, annotations map[string]string) corev1.Pod {
		out := fixture.Pod(name).GPUs(1).Obj()
		out.Spec.NodeName, out.Status.Phase, out.Annotations = node, corev1.PodRunning, annotations
		return *out
	}
	sliced := fixture.Cards("mig", 81920, 81920, 81920).Unhealthy(2).Sliced("1g.10gb", 2, 0, 2)
	tests := map[string]struct {
		node *corev1.Node
		pods []corev1.Pod
		want mapRow
	}{
		"whole": {
			node: fixture.Node("n").GPUs(4, "A").Obj(), pods: []corev1.Pod{pod("a", "n", nil)},
			want: mapRow{total: 4, used: 1, free: 3, room: 3, states: "hfff"},
		},
		"divided and idle": {
			node: fixture.Node("n").GPUs(8, "T4-SHARED").Label(names.LabelNVIDIAReplicas, "4").Obj(),
			want: mapRow{total: 2, free: 2, room: 2, states: "ffffffff"},
		},
		"divided": {
			node: fixture.Node("n").GPUs(8, "T4-SHARED").Label(names.LabelNVIDIAReplicas, "4").Obj(), pods: []corev1.Pod{pod("a", "n", nil)},
			want: mapRow{total: 2, used: 1, free: 1, room: 1, states: "hfffffff"},
		},
		"some in MIG mode": {
			node: fixture.Node("mig").GPUs(1, "A").Annotate(names.AnnotationInventory, sliced.Annotation(t)).Obj(),
			want: mapRow{total: 1, free: 1, room: 1, states: "mfx"},
		},
		"all in MIG mode": {
			node: fixture.Node("mig").Slices("1g.10gb", 4).Annotate(names.AnnotationInventory, fixture.Cards("mig", 81920, 81920).Sliced("1g.10gb", 2, 0, 1).Annotation(t)).Obj(),
			want: mapRow{states: "mm"},
		},
		"numbers with gaps": {
			node: fixture.Node("n").GPUs(2, "A").Annotate(names.AnnotationInventory,
				`{"version":1,"gpus":[{"uuid":"GPU-a","index":4,"health":"Healthy"},{"uuid":"GPU-b","index":6,"health":"Healthy"}]}`).Obj(),
			want: mapRow{total: 2, free: 2, room: 2, states: "ff", numbers: []int{4, 6}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := &snapshot.Snapshot{Nodes: []corev1.Node{*tc.node}, Pods: tc.pods}
			v := &view{State: inventory.State{Cluster: inventory.Build(cluster), Objects: cluster}}
			rows := v.mapRows()
			if len(rows) != 1 {
				t.Fatalf("the map has %d nodes", len(rows))
			}
			got := rows[0]
			counts := mapRow{total: got.total, used: got.used, free: got.free, room: got.room, states: got.states, numbers: got.numbers}
			if diff := cmp.Diff(tc.want, counts, cmp.AllowUnexported(mapRow{})); diff != "" {
				t.Errorf("the node (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAMapFollowsTheRightsOfItsReader: holders that may no longer be seen go, and a cluster that answers no review for a moment takes nothing away.
func TestAMapFollowsTheRightsOfItsReader(t *testing.T) {
	now := time.Unix(0, 0)
	s := &Server{options: Options{Now: func() time.Time { return now }}.withDefaults(), cache: newClusterCache()}
	show := func(namespaces ...string) {
		state := inventory.State{Objects: &snapshot.Snapshot{}}
		for _, namespace := range namespaces {
			state.Jobs = append(state.Jobs, inventory.Job{Name: "a", Namespace: namespace})
		}
		s.cache.setView(state, now)
	}
	show("team")
	cluster := allowing("team")
	ctx := asReviewed(t, cluster)
	answer := httptest.NewRecorder()
	w := &mapWatcher{server: s, out: &stream{out: answer, control: http.NewResponseController(answer)}, scope: access.KeptScope{TTL: time.Second}}
	send := func(want string) {
		t.Helper()
		answer.Body.Reset()
		if err := w.sendChanges(ctx); err != nil {
			t.Fatal(err)
		}
		if got := strings.HasPrefix(answer.Body.String(), "event: map"); got != (want == "map") {
			t.Errorf("sent %q, want %q", answer.Body, want)
		}
	}
	send("map")
	cluster.may = allowing().may
	send("") // kept for a second
	cluster.broken = true
	now = now.Add(2 * time.Second)
	send("")
	cluster.broken = false
	send("map")
	send("")
	cluster.may = allowing("new").may
	show("new", "team")
	send("map") // the first job of a namespace is seen at once
}

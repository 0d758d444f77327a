package cli

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// TestDescribeSaysHowBusyAPoolOrANodeIs where that was asked for, and of how many GPUs it is known.
func TestDescribeSaysHowBusyAPoolOrANodeIs(t *testing.T) {
	for name, tc := range map[string]struct {
		load *usage.Load
		want string // "" for no line
	}{
		"nobody says where the metrics are": {},
		"nothing was measured":              {load: &usage.Load{}, want: "Utilization: n/a: nothing was measured\n"},
		"all":                               {load: &usage.Load{Utilization: ptr.To(43.4), MemoryUsedMiB: ptr.To(65536.0), Measured: 8}, want: "Utilization: 43%, of 8 of 8 GPUs; 64 GiB of their memory are used\n"},
		"some":                              {load: &usage.Load{Utilization: ptr.To(100.0), Measured: 1}, want: "Utilization: 100%, of 1 of 8 GPUs\n"},
	} {
		t.Run(name, func(t *testing.T) {
			streams, out, _ := TestIOStreams("")
			pool := poolDetail{Pool: inventory.Pool{Name: "train", GPUs: inventory.GPUs{Allocatable: 8}}, Load: tc.load}
			if err := describePool(newDescription(streams), pool, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			nodeStreams, nodeOut, _ := TestIOStreams("")
			node := nodeDetail{Node: inventory.Node{Name: "n1", GPUs: inventory.GPUs{Allocatable: 8}}, Load: tc.load}
			if err := describeNode(newDescription(nodeStreams), node, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			if got := nodeOut.String(); !strings.Contains(got, tc.want) || strings.Contains(got, "Utilization") != (tc.want != "") {
				t.Errorf("of a node: got\n%s\nwant %q", got, tc.want)
			}
			if got := out.String(); !strings.Contains(got, tc.want) || strings.Contains(got, "Utilization") != (tc.want != "") {
				t.Errorf("got\n%s\nwant %q", got, tc.want)
			}
		})
	}
}

// TestDescribeSaysHowMuchOfThePoolsCPUIsAskedForAndUsed, and plainly where nothing tells the use.
func TestDescribeSaysHowMuchOfThePoolsCPUIsAskedForAndUsed(t *testing.T) {
	amount := func(text string) *resource.Quantity { return ptr.To(resource.MustParse(text)) }
	pool := inventory.Pool{
		Name: "train", Nodes: []string{"a", "b"},
		CPU:    inventory.Capacity{Allocatable: *amount("192"), Requested: *amount("95500m")},
		Memory: inventory.Capacity{Allocatable: *amount("2Ti"), Requested: *amount("512Gi")},
	}
	for name, tc := range map[string]struct {
		use  usage.MachineLoad
		want []string
	}{
		"of all nodes":  {usage.MachineLoad{CPU: amount("41234m"), Memory: amount("300Gi"), Measured: 2}, []string{"95.5 of 192 requested, 41.2 in use\n", "512Gi of 2048Gi requested, 300Gi in use\n"}},
		"of some nodes": {usage.MachineLoad{CPU: amount("1"), Memory: amount("1536Mi"), Measured: 1}, []string{"requested, 1 in use on 1 of 2 nodes\n", "requested, 1.5Gi in use on 1 of 2 nodes\n"}},
		"of none":       {usage.MachineLoad{}, []string{"95.5 of 192 requested; how much is in use is not known: "}},
	} {
		t.Run(name, func(t *testing.T) {
			streams, out, _ := TestIOStreams("")
			if err := describePool(newDescription(streams), poolDetail{Pool: pool, Use: tc.use}, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			for _, want := range tc.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%s\nwant %q", out, want)
				}
			}
		})
	}
}

package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestDefaultFleetHasFourPoolsAndFiveTypes(t *testing.T) {
	fleet := DefaultFleet()
	pools, types, gpus := map[string]bool{}, map[string]bool{}, 0
	for _, group := range fleet.Groups {
		pools[group.Pool] = true
		if group.GPUType != "" {
			types[group.GPUType] = true
		}
		gpus += group.Count * group.GPUsPerNode
	}
	got := []int{fleet.Len(), len(pools), len(types), gpus}
	if diff := cmp.Diff([]int{64, 4, 5, 384}, got); diff != "" {
		t.Errorf("nodes, pools, types, GPUs (-want +got):\n%s", diff)
	}
}

func TestScale(t *testing.T) {
	tests := map[string]struct {
		counts  []int
		n       int
		want    []int
		wantErr string
	}{
		"all groups grow by the same factor":           {counts: []int{1, 2, 5}, n: 80, want: []int{10, 20, 50}},
		"the largest remainder gets the node left":     {counts: []int{3, 3, 2}, n: 9, want: []int{4, 3, 2}},
		"a group of less than a node keeps one":        {counts: []int{1, 99}, n: 10, want: []int{1, 9}},
		"the node for it is taken from the largest":    {counts: []int{1, 1, 98}, n: 10, want: []int{1, 1, 8}},
		"the same number changes nothing":              {counts: []int{7, 11}, n: 18, want: []int{7, 11}},
		"fewer nodes than groups cannot keep them all": {counts: []int{5, 5}, n: 1, wantErr: "2 groups"},
		"a fleet without nodes has no proportions":     {n: 1, wantErr: "no nodes"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var fleet Fleet
			for _, count := range tc.counts {
				fleet.Groups = append(fleet.Groups, NodeGroup{Count: count})
			}
			scaled, err := fleet.Scale(tc.n)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("got error %v, want one with %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, group := range scaled.Groups {
				got = append(got, group.Count)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScaleReachesEveryNumber(t *testing.T) {
	fleet := DefaultFleet()
	for n := len(fleet.Groups); n <= 2000; n++ {
		scaled, err := fleet.Scale(n)
		if err != nil {
			t.Fatal(err)
		}
		if scaled.Len() != n {
			t.Fatalf("got %d nodes, want %d", scaled.Len(), n)
		}
	}
}

func TestParseFleetRefuses(t *testing.T) {
	const node = "\n  cpu: 1\n  memory: 1Gi\n"
	tests := map[string]struct {
		yaml string
		want string
	}{
		"an unknown field":              {yaml: "groups:\n- namePrefix: a\n  count: 1\n  gpus: 8" + node, want: `unknown field "gpus"`},
		"no groups":                     {yaml: "groups: []\n", want: "groups: Required value"},
		"GPUs without a type":           {yaml: "groups:\n- namePrefix: a\n  count: 1\n  gpusPerNode: 8" + node, want: "groups[0].gpuType: Required value"},
		"a type without GPUs":           {yaml: "groups:\n- namePrefix: a\n  count: 1\n  gpuType: T4" + node, want: "groups[0].gpuType: Forbidden"},
		"an unknown interconnect":       {yaml: "groups:\n- namePrefix: a\n  count: 1\n  gpusPerNode: 1\n  gpuType: T4\n  gpuMemory: 1Gi\n  interconnect: scsi" + node, want: `"nvlink", "pcie"`},
		"a count of nothing":            {yaml: "groups:\n- namePrefix: a" + node, want: "groups[0].count: Invalid value: 0"},
		"a prefix that no name can be":  {yaml: "groups:\n- namePrefix: A_1\n  count: 1" + node, want: "groups[0].namePrefix"},
		"two groups of the same prefix": {yaml: "groups:\n- namePrefix: a\n  count: 1" + node + "- namePrefix: a\n  count: 1" + node, want: "groups[1].namePrefix: Duplicate"},
		"a node without memory":         {yaml: "groups:\n- namePrefix: a\n  count: 1\n  cpu: 1\n", want: "groups[0].memory"},
		"a quantity that is none":       {yaml: "groups:\n- namePrefix: a\n  count: 1\n  cpu: many\n  memory: 1Gi\n", want: "quantities must match"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := ParseFleet([]byte(tc.yaml))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestNodesLookLikeThoseOfGPUFeatureDiscovery(t *testing.T) {
	fleet, err := ParseFleet([]byte(`
groups:
- namePrefix: train
  count: 5
  pool: training-pool
  gpuType: A100-100G
  gpusPerNode: 8
  gpuMemory: 100Gi
  interconnect: nvlink
  cpu: 128
  memory: 1Ti
  nodesPerRack: 4
  labels: {tier: gold}
`))
	if err != nil {
		t.Fatal(err)
	}
	nodes := fleet.Nodes(time.Unix(0, 0), 10250)
	node := nodes[4]
	want := map[string]string{
		corev1.LabelHostname: "train-05", corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		corev1.LabelTopologyRegion: "sandbox", corev1.LabelTopologyZone: "sandbox-a",
		g8s.LabelPool: "training-pool", g8s.LabelRack: "train-r2", g8s.LabelGPUType: "A100-100G",
		g8s.LabelInterconnect: "nvlink", g8s.LabelMemory: "100Gi", g8s.LabelCount: "8",
		g8s.LabelNVIDIACount: "8", g8s.LabelNVIDIAMemory: "102400", "tier": "gold",
	}
	if diff := cmp.Diff(want, node.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if gpus := node.Status.Allocatable[g8s.ResourceGPU]; gpus.Value() != 8 {
		t.Errorf("got %s GPUs, want 8", gpus.String())
	}
	if port := node.Status.DaemonEndpoints.KubeletEndpoint.Port; port != 10250 {
		t.Errorf("got kubelet port %d, want 10250", port)
	}
	if !isUsable(node) {
		t.Error("a new node is not ready")
	}
}

func TestANodeOfTheDefaultPoolHasNoPoolLabel(t *testing.T) {
	for _, node := range DefaultFleet().Nodes(time.Unix(0, 0), 0) {
		pool, ok := node.Labels[g8s.LabelPool]
		if strings.HasPrefix(node.Name, "h100-") && ok {
			t.Errorf("node %s has pool %q, want no label", node.Name, pool)
		}
	}
}

func TestStagesKnowTheAnnotations(t *testing.T) {
	for _, annotation := range []string{
		AnnotationStartDelay, AnnotationRunFor, AnnotationFailAfter, AnnotationExitCode, AnnotationFailReason,
	} {
		if !strings.Contains(string(kwokStages), `"`+annotation+`"`) {
			t.Errorf("assets/stages.yaml does not read %s", annotation)
		}
	}
}

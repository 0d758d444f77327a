package integration

import (
	"fmt"
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestJobTypesAreScoredByTheirStrategy is the shipped policy on two racks of two nodes, one of which is half full.
func TestJobTypesAreScoredByTheirStrategy(t *testing.T) {
	tests := map[string]struct {
		jobType string
		busy    map[string]int64 // GPUs by node, before
		gpus    int64
		pods    int
		want    map[string]int // pods by node
	}{
		"two replicas of inference go to two racks": {
			jobType: "inference", busy: map[string]int64{"a1": 4}, gpus: 1, pods: 2,
			want: map[string]int{"a1": 1, "b": 1},
		},
		"four replicas of inference go to four nodes": {
			jobType: "inference", busy: map[string]int64{"a1": 4}, gpus: 1, pods: 4,
			want: map[string]int{"a1": 1, "a2": 1, "b1": 1, "b2": 1},
		},
		"training fills the node that is half full": {
			jobType: "training", busy: map[string]int64{"a1": 4}, gpus: 2, pods: 2,
			want: map[string]int{"a1": 2},
		},
		"a notebook takes the odd GPU and not one of the fuller node's pair": {
			jobType: "notebook", busy: map[string]int64{"a1": 6, "a2": 5}, gpus: 1, pods: 1,
			want: map[string]int{"a2": 1},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			for _, node := range []string{"a1", "a2", "b1", "b2"} {
				e.createNodes(fixture.Node(node).Pool("racks").GPUs(8, "A100-80G").Label(names.LabelRack, node[:1]).Obj())
			}
			for node, gpus := range tc.busy {
				e.createPods(fixture.Pod("busy-"+node).GPUs(gpus).Pool("racks").Select("kubernetes.io/hostname", node).Obj())
				e.waitBound("busy-" + node)
			}
			for i := range tc.pods {
				e.createPods(fixture.Pod(fmt.Sprintf("pod-%d", i)).GPUs(tc.gpus).Pool("racks").
					Label(names.LabelJob, "job").Label(names.LabelJobType, tc.jobType).Obj())
			}
			got := map[string]int{}
			for i := range tc.pods {
				node := e.waitBound(fmt.Sprintf("pod-%d", i))
				if _, named := tc.want[node]; !named {
					node = node[:1] // which of the idle nodes of a rack is chance
				}
				got[node]++
			}
			for node, want := range tc.want {
				if got[node] != want {
					t.Errorf("the pods went to %v, want %v", got, tc.want)
				}
			}
		})
	}
}

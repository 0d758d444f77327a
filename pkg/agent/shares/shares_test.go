package shares

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

func share(pod, container, card string, mib int64) binding.Record {
	return binding.Record{Pod: types.UID("uid-" + pod), Namespace: "team", PodName: pod, Container: container, Devices: []gpu.Device{{UUID: card, MemoryMiB: mib}}}
}

func TestOverruns(t *testing.T) {
	records := []binding.Record{share("a", "main", "A", 1000), share("a", "side", "A", 500), share("b", "main", "A", 1000), share("c", "main", "B", 0)}
	for name, tc := range map[string]struct {
		uses []Use
		want []Overrun
	}{
		"nobody uses anything":     {},
		"all keep to their shares": {uses: []Use{{"A", 1, "uid-a", 1000}, {"A", 2, "uid-a", 500}, {"A", 3, "uid-b", 1000}}},
		"one process is over": {
			uses: []Use{{"A", 3, "uid-b", 1001}},
			want: []Overrun{{Pod: "uid-b", Namespace: "team", Name: "b", GPUUUID: "A", UsedMiB: 1001, ShareMiB: 1000, PIDs: []int{3}}},
		},
		"two processes are over together, and not their neighbour": {
			uses: []Use{{"A", 1, "uid-a", 700}, {"A", 2, "uid-a", 900}, {"A", 3, "uid-b", 1000}},
			want: []Overrun{{Pod: "uid-a", Namespace: "team", Name: "a", GPUUUID: "A", UsedMiB: 1600, ShareMiB: 1500, PIDs: []int{2, 1}}},
		},
		"a whole card is no share":            {uses: []Use{{"B", 4, "uid-c", 40000}}},
		"a process that belongs to no pod":    {uses: []Use{{"A", 5, "", 40000}}},
		"a process on a card that it has not": {uses: []Use{{"B", 1, "uid-a", 40000}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, FindOverruns(records, tc.uses)); diff != "" {
				t.Errorf("overruns (-want +got):\n%s", diff)
			}
		})
	}
}

package diagnosis

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/reason"
)

func TestBeyond(t *testing.T) {
	tests := map[string]struct {
		verdict string
		want    reason.Cause
	}{
		"no verdict":                         {"", ""},
		"a shortage that may be over":        {"0/2 nodes are available: 2 node(s) have too few free GPUs.", ""},
		"closed nodes, which may be open":    {"0/2 nodes are available: 2 node(s) were unschedulable.", ""},
		"a gang for which there was no room": {"0/2 nodes are available: gang: there is room for 1 of 2 members now, and all start at once.", ""},
		"a claim that is missing":            {`0/2 nodes are available: persistentvolumeclaim "data" not found.`, reason.VolumeMissing},
		"a volume in another zone":           {"0/2 nodes are available: 2 node(s) had volume node affinity conflict.", reason.VolumeElsewhere},
		"nodes that are kept":                {"0/2 nodes are available: 1 node(s) are kept whole for pods that take a whole node, 1 node(s) have too few free GPUs.", reason.KeptWhole},
		"nodes that are reserved":            {"0/2 nodes are available: 2 node(s) are kept for others by a GPUReservation.", reason.ReservedNode},
		"a port that is taken":               {"0/2 nodes are available: 2 node(s) didn't have free ports for the requested pod ports.", reason.HostPort},
		"members that are yet to be there":   {"cannot find enough sibling pods, current pods number: 1, minMember of group: 2", reason.GangIncomplete},
		"what nobody here knows":             {"0/2 nodes are available: 2 node(s) were full of eels.", reason.RejectedByScheduler},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := FindingBeyondNodes(tc.verdict)
			if got.Cause != tc.want || ok != (tc.want != "") {
				t.Errorf("it is %q, %t, want %q", got.Cause, ok, tc.want)
			}
		})
	}
}

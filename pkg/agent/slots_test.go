package agent

import (
	"strings"
	"testing"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
	"g8s.host/gpu-scheduler/pkg/agent/kubelet"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

var noEdits specs.ContainerEdits

func devicesOf(uuids ...string) []gpu.Device {
	var devices []gpu.Device
	for _, uuid := range uuids {
		devices = append(devices, gpu.Device{UUID: uuid})
	}
	return devices
}

func TestSlotsOfSickCards(t *testing.T) {
	const resource = "nvidia.com/gpu"
	claims := []checkpoint.Claim{
		{Resource: resource, Name: "N1", Slots: []string{"slot-0", "slot-3"}},
		{Resource: resource, Name: "N2", Slots: []string{"slot-1"}},
		{Resource: "other", Name: "N3", Slots: []string{"slot-2"}},
	}
	records := []binding.Record{{Name: "N1", Devices: devicesOf("C", "A")}, {Name: "N2", Devices: devicesOf("B")}, {Name: "N3", Devices: devicesOf("D")}}
	tests := map[string]struct {
		sick    string
		perUnit int
		before  []string
		want    string // the slots that are lost
	}{
		"none":                                    {"", 1, nil, ""},
		"the holder's slot":                       {"A", 1, nil, "slot-3"},
		"the slot of a holder of one":             {"B", 1, nil, "slot-1"},
		"a free slot, as nobody holds the card":   {"D", 1, nil, "slot-2"},
		"the free slot of before":                 {"D", 1, []string{"slot-2"}, "slot-2"},
		"the slot of before, which a pod has now": {"D", 1, []string{"slot-1"}, "slot-2"},
		"all":                           {"ABCD", 1, nil, "slot-0 slot-1 slot-2 slot-3"},
		"all slots of a shared card":    {"B", 2, nil, "slot-1 slot-7"},
		"those of before, and not more": {"D", 2, []string{"slot-4", "slot-5", "slot-6"}, "slot-4 slot-5"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := offer{units: map[string]bool{}, perUnit: tc.perUnit}
			for _, unit := range "ABCD" {
				o.units[string(unit)] = !strings.ContainsRune(tc.sick, unit)
			}
			var before []kubelet.Slot
			for _, id := range tc.before {
				before = append(before, kubelet.Slot{ID: id})
			}
			slots := o.buildSlots(resource, before, claims, records)
			var lost []string
			for _, slot := range slots {
				if !slot.Healthy {
					lost = append(lost, slot.ID)
				}
			}
			if got := strings.Join(lost, " "); got != tc.want || len(slots) != 4*tc.perUnit {
				t.Errorf("lost %q of %d, want %q of %d", got, len(slots), tc.want, 4*tc.perUnit)
			}
		})
	}
}

// TestSlotsOfOthersAreLeftAlone: all slots are in use, and nobody is known to hold the sick card.
func TestSlotsOfOthersAreLeftAlone(t *testing.T) {
	o := offer{units: map[string]bool{"A": false, "B": true}, perUnit: 1}
	claims := []checkpoint.Claim{{Resource: "r", Name: "N1", Slots: []string{"slot-0", "slot-1"}}}
	for _, slot := range o.buildSlots("r", nil, claims, nil) {
		if !slot.Healthy {
			t.Errorf("%s is lost, and its container might have the other card", slot.ID)
		}
	}
}

// TestASickCardTakesItsOwnSlotsAlone: an init container had it as its first card, and with another slot than the one that runs now.
func TestASickCardTakesItsOwnSlotsAlone(t *testing.T) {
	o := offer{units: map[string]bool{"A": false, "B": true, "C": true, "D": true}, perUnit: 1}
	claims := []checkpoint.Claim{
		{Resource: "r", Name: "N1", Slots: []string{"slot-0", "slot-1"}}, {Resource: "r", Name: "N2", Slots: []string{"slot-1"}},
	}
	records := []binding.Record{{Name: "N1", Devices: devicesOf("A", "B")}, {Name: "N2", Devices: devicesOf("A")}}
	lost := 0
	for _, slot := range o.buildSlots("r", nil, claims, records) {
		if !slot.Healthy {
			lost++
		}
	}
	if lost != 1 {
		t.Errorf("%d slots are lost with one card", lost)
	}
}

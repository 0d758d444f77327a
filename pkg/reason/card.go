package reason

import (
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// GPUFault describes a fault of a GPU for people.
type GPUFault struct {
	// Message continues the GPU's name.
	Message phrase.Text
	// Remedy is what administrators do about it.
	Remedy phrase.Text
}

// gpuFaults are the faults that have words of their own in an inventory.
var gpuFaults = map[string]GPUFault{
	fault.Lost:           {phrase.Textf("does not answer its driver any more"), restart},
	fault.ResetRequired:  {phrase.Textf("has to be reset, says its driver"), reset},
	fault.RebootRequired: {phrase.Textf("works again after a restart of the node only, says its driver"), restart},
	fault.RowRemapFailed: {phrase.Textf("has broken memory, and no spare rows are left for it"), phrase.Textf("have the card exchanged")},
	fault.NVLinkDown:     {phrase.Textf("has lost an NVLink"), reset},
	fault.TooHot:         {phrase.Textf("is slowed down by heat"), phrase.Textf("see to the cooling of the node")},
	fault.RepeatedErrors: {phrase.Textf("has reported errors again and again"), phrase.Textf("see in the log of the node's gpu-agent which; %s", reset)},
}

var (
	reset   = phrase.Textf("drain the node and reset the card, or restart the node; exchange the card if it happens again")
	restart = phrase.Textf("drain the node and restart it; exchange the card if it happens again")
	service = phrase.Textf("have the machine looked after: its power, its firmware, the card")
)

// xids are the names in NVIDIA's catalog of the most frequent errors that take a GPU out.
var xids = map[uint64]phrase.Text{
	48: phrase.Textf("has an error in its memory that cannot be corrected"), 54: phrase.Textf("is not connected to its power"),
	62: phrase.Textf("has stopped: an error of its microcontroller"), 64: phrase.Textf("has broken memory that cannot be taken out of use"),
	74: phrase.Textf("has an error of NVLink"), 79: phrase.Textf("has fallen off the bus"),
	95:  phrase.Textf("has an error in its memory that was not contained"),
	119: phrase.Textf("has a controller (GSP) that does not answer"), 120: phrase.Textf("has an error of its controller (GSP)"),
	140: phrase.Textf("has an error in its memory that was not recovered"),
}

// GPUFaultOf describes the fault of a GPU by the health word in its node's inventory.
func GPUFaultOf(word string) GPUFault {
	code, isXID := fault.ParseXID(word)
	if !isXID {
		if known, ok := gpuFaults[word]; ok {
			return known
		}
		return GPUFault{
			Message: phrase.Textf("must not be used: %s", word), Remedy: phrase.Textf("see what the log of the node's gpu-agent says of it"),
		}
	}
	out := GPUFault{
		Message: phrase.Textf("reported XID %d", code), Remedy: phrase.Textf("look it up in NVIDIA's catalog of XIDs; %s", reset),
	}
	if known, ok := xids[code]; ok {
		out.Message = phrase.Textf("%s (XID %d)", known, code)
	}
	switch fault.ClassOf(code) {
	case fault.Reset:
		out.Remedy = reset
	case fault.Reboot:
		out.Remedy = restart
	case fault.Service:
		out.Remedy = service
	}
	return out
}

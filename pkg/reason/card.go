package reason

import (
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// CardFault describes a fault of a GPU for people.
type CardFault struct {
	// Says continues the GPU's name.
	Says phrase.Text
	// Mend is what administrators do about it.
	Mend phrase.Text
}

// ofCards are the faults that have words of their own in an inventory.
var ofCards = map[string]CardFault{
	fault.Lost:           {phrase.Of("does not answer its driver any more"), restart},
	fault.ResetRequired:  {phrase.Of("has to be reset, says its driver"), reset},
	fault.RebootRequired: {phrase.Of("works again after a restart of the node only, says its driver"), restart},
	fault.RowRemapFailed: {phrase.Of("has broken memory, and no spare rows are left for it"), phrase.Of("have the card exchanged")},
	fault.NVLinkDown:     {phrase.Of("has lost an NVLink"), reset},
	fault.TooHot:         {phrase.Of("is slowed down by heat"), phrase.Of("see to the cooling of the node")},
	fault.RepeatedErrors: {phrase.Of("has reported errors again and again"), phrase.Of("see in the log of the node's gpu-agent which; %s", reset)},
}

var (
	reset   = phrase.Of("drain the node and reset the card, or restart the node; exchange the card if it happens again")
	restart = phrase.Of("drain the node and restart it; exchange the card if it happens again")
	service = phrase.Of("have the machine looked after: its power, its firmware, the card")
)

// xids are the names in NVIDIA's catalog of the most frequent errors that take a GPU out.
var xids = map[uint64]phrase.Text{
	48: phrase.Of("has an error in its memory that cannot be corrected"), 54: phrase.Of("is not connected to its power"),
	62: phrase.Of("has stopped: an error of its microcontroller"), 64: phrase.Of("has broken memory that cannot be taken out of use"),
	74: phrase.Of("has an error of NVLink"), 79: phrase.Of("has fallen off the bus"),
	95:  phrase.Of("has an error in its memory that was not contained"),
	119: phrase.Of("has a controller (GSP) that does not answer"), 120: phrase.Of("has an error of its controller (GSP)"),
	140: phrase.Of("has an error in its memory that was not recovered"),
}

// OfCard describes the fault of a GPU by the health word in its node's inventory.
func OfCard(word string) CardFault {
	code, isXID := fault.XidOf(word)
	if !isXID {
		if known, ok := ofCards[word]; ok {
			return known
		}
		return CardFault{
			Says: phrase.Of("must not be used: %s", word), Mend: phrase.Of("see what the log of the node's gpu-agent says of it"),
		}
	}
	out := CardFault{
		Says: phrase.Of("reported XID %d", code), Mend: phrase.Of("look it up in NVIDIA's catalog of XIDs; %s", reset),
	}
	if known, ok := xids[code]; ok {
		out.Says = phrase.Of("%s (XID %d)", known, code)
	}
	switch fault.ClassOf(code) {
	case fault.Reset:
		out.Mend = reset
	case fault.Reboot:
		out.Mend = restart
	case fault.Service:
		out.Mend = service
	}
	return out
}

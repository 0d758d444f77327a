package workload

import (
	"time"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Bounds of reservations, equal to those of the GPUReservation.
const (
	maxReservedNodes = 256
	maxReservedFor   = 64
	maxReason        = 256
	minReservation   = time.Minute
)

// reservationFields is the table of kind reservation. It decodes into r.
func reservationFields(r *Reservation) fields {
	return append(headFields(KindReservation),
		field{name: "metadata", aliases: []string{"reservation"}, required: true,
			value: sectionValue(fields{{name: "name", required: true, value: scalarValue(&r.Name, "name", parseSubdomain), example: "firmware-december", doc: "The name of the reservation."}}),
			doc:   "What the reservation is called. May also be written as reservation."},
		field{name: "pool", excludes: []string{"nodes"}, value: scalarValue(&r.Pool, "pool", labelValue), def: "none", example: "h100",
			doc: "The pool of which all nodes are kept, also those that join it later; default is the nodes in no other. Or nodes."},
		field{name: "nodes", aliases: []string{"node"}, excludes: []string{"pool"}, typical: true, def: "none", example: "[train-03, train-04]",
			value: nonEmptyList(&r.Nodes, maxReservedNodes, "host name", parseSubdomain, phrase.Textf("name some, or write pool")),
			doc:   "The nodes that are kept, by name. They need not be there yet."},
		field{name: "from", required: true, value: scalarValue(&r.From, "time, or now", parseMomentOrNow), example: "2026-12-01 14:00 +01:00",
			doc: "When the nodes are kept from: a time with its zone, or now, which is when the reservation is made."},
		field{name: "to", aliases: []string{"until"}, excludes: []string{"for"}, typical: true, value: optionalValue(&r.To, "time", parseMoment), def: "for after from", example: "2026-12-01 18:00 +01:00",
			doc: "Until when: from then on the nodes are for all again."},
		field{name: "for", excludes: []string{"to"}, value: scalarValue(&r.For, "duration", durationParser(minReservation)), def: "until to", example: "4h",
			doc: "For how long, instead of to."},
		field{name: "namespaces", aliases: []string{"namespace"}, def: "none, which is maintenance", example: "[team-vision]",
			value: nonEmptyList(&r.Namespaces, maxReservedFor, "namespace", dnsLabel(63), phrase.Textf("leave it out for a maintenance window, in which nobody may be there")),
			doc:   "Whose jobs may be there meanwhile."},
		field{name: "reason", value: scalarValue(&r.Reason, "text", reasonText), def: "none", example: `"new firmware, ask @gpu-ops"`,
			doc: "A sentence for those who wait."},
		field{name: "evict", value: scalarValue(&r.Evict, "true or false", parseBool), def: "false", example: "true",
			doc: "Whether gpu-controller evicts those who are still there when it begins, and may not be. It keeps to PodDisruptionBudgets."},
	)
}

// nonEmptyList is [oneOrList] for lists that must not be empty; instead says what to write in place of an empty list.
func nonEmptyList(to *[]string, most int, describe string, parse func(string) (string, error), instead phrase.Text) value {
	v := oneOrList(to, most, describe, parse)
	decode := v.decode
	v.decode = func(d *decoder, node *yaml.Node, path string) {
		switch {
		case node.Kind == yaml.SequenceNode && len(node.Content) == 0:
			d.errorf(node, "%s is an empty list: %s", path, instead)
		case node.Kind == yaml.SequenceNode && len(node.Content) > most:
			d.errorf(node.Content[most], "%s has %d entries, and at most %d are allowed: make another reservation of the rest", path, len(node.Content), most)
		default:
			decode(d, node, path)
		}
	}
	return v
}

func reasonText(s string) (string, error) {
	if n := len([]rune(s)); n > maxReason {
		return "", phrase.Errorf("is too long: it has %d characters, and at most %d are allowed", n, maxReason)
	}
	return anyText(s)
}

// checkReservation validates relations between fields of a reservation.
func checkReservation(d *decoder, r *Reservation) {
	if !d.intendsField("pool") && !d.intendsField("nodes") {
		d.errorf(d.valueAt("metadata"), "the reservation keeps no node: write nodes, such as \"nodes: [train-03]\", or pool for all nodes of one")
	}
	if !d.intendsField("to") && !d.intendsField("for") {
		d.errorf(d.valueAt("from"), "the reservation has no end: write to, or for how long, such as \"for: 4h\"")
	}
	if r.From != nil && r.To != nil && !r.From.Before(*r.To) {
		d.errorf(d.valueAt("to"), "to is not after from: the reservation would end before it begins")
	}
}

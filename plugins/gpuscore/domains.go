package gpuscore

import (
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
)

// maxPlaced bounds the number of nodes with cached failure domains, of all candidates together.
const maxPlaced = 1 << 17

// domainTables cache the failure domains of candidates. The zero value is empty. Only one goroutine uses it.
type domainTables struct {
	known map[*shortlist.Candidates]*domains
}

// domainsFor returns the failure domains of candidates.
func (t *domainTables) domainsFor(candidates *shortlist.Candidates) *domains {
	if d := t.known[candidates]; d != nil {
		return d
	}
	placed := 0
	for other, d := range t.known {
		if candidates.Replaces(other) {
			delete(t.known, other)
			continue
		}
		placed += len(d.nodes)
	}
	if t.known == nil || placed >= maxPlaced {
		t.known = map[*shortlist.Candidates]*domains{}
	}
	d := &domains{numbers: map[rack]int{}}
	t.known[candidates] = d
	return d
}

// domains are the racks that nodes are in, so that a node's labels are read once and not for each replica.
type domains struct {
	racks   []rack
	numbers map[rack]int
	// nodes and in are by node position: the node as it was read, and the number of its rack.
	nodes []*corev1.Node
	in    []int
}

// domainAt returns the number of the rack that the node at a position is in. A node that has changed is read again.
func (d *domains) domainAt(position int, node *corev1.Node) int {
	for len(d.nodes) <= position {
		d.nodes, d.in = append(d.nodes, nil), append(d.in, 0)
	}
	if d.nodes[position] != node {
		d.nodes[position], d.in[position] = node, d.domainNumber(rackOf(node))
	}
	return d.in[position]
}

func (d *domains) domainNumber(r rack) int {
	number, known := d.numbers[r]
	if !known {
		number = len(d.racks)
		d.numbers[r] = number
		d.racks = append(d.racks, r)
	}
	return number
}

// countReplicas returns how many replicas there are in the zone and in the rack, by the number of a rack.
func (d *domains) countReplicas(near *replicas) []replicaCrowd {
	crowds := make([]replicaCrowd, len(d.racks))
	for i, r := range d.racks {
		crowds[i] = replicaCrowd{zone: near.byZone[r.zone], rack: near.byRack[r]}
	}
	return crowds
}

package spot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// clockSkew is how far the clocks of a cloud, of the API server and of gpu-controller may differ.
const clockSkew = 5 * time.Minute

// RefusedNode is a node that claims to run on a machine of the SpotPool, or that the cloud's tags claim for it, and is not taken.
type RefusedNode struct{ Name, Instance, Why string }

// Origin is what tells a node of a machine that was bought from any other node. Its provider ID and its addresses are written by its own
// kubelet, so neither proves anything alone. Its name, its labels g8s.host/ and the time of its creation are not.
type Origin struct {
	// Created is when the Node object was made.
	Created time.Time
	// Pool and SpotPool are its labels of these names.
	Pool, SpotPool string
	// ControlPlane says that it has a role or a taint of the control plane.
	ControlPlane bool
	// Addresses are its internal ones.
	Addresses []string
}

// originOf reads the origin of a node.
func originOf(node *corev1.Node) Origin {
	out := Origin{Created: node.CreationTimestamp.Time, Pool: node.Labels[g8s.LabelPool], SpotPool: node.Labels[g8s.LabelSpotPool]}
	for _, role := range controlPlaneRoles {
		_, labelled := node.Labels[role]
		tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == role })
		out.ControlPlane = out.ControlPlane || labelled || tainted
	}
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			out.Addresses = append(out.Addresses, address.Address)
		}
	}
	return out
}

// controlPlaneRoles are the labels and taints of the control plane, as kubeadm and its forerunners write them.
var controlPlaneRoles = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}

// matchNodes finds the node of each machine, one at the most: that of its name, or else the one whose provider ID is its instance.
func (p *planner) matchNodes() {
	byName, byInstance := map[string]*Node{}, map[string][]*Node{}
	for i := range p.facts.Nodes {
		node := &p.facts.Nodes[i]
		byName[node.Name] = node
		if node.Instance != "" {
			byInstance[node.Instance] = append(byInstance[node.Instance], node)
		}
	}
	for i := range p.machines {
		machine := &p.machines[i]
		var candidates []*Node
		if named := byName[machine.Name]; named != nil && !named.isOther(machine.Instance) {
			candidates = append(candidates, named)
		}
		if machine.Instance != "" {
			candidates = append(candidates, byInstance[machine.Instance]...)
		}
		if node := p.choose(machine, candidates); node != nil {
			p.nodes[machine.Name] = node
		}
	}
}

// choose is the node of a machine among those that may be: the one of its name, or else the one that has been taken already, or else the
// only other one. Of two that only claim to be it, none is.
func (p *planner) choose(m *g8s.SpotMachine, candidates []*Node) *Node {
	var fitting []*Node
	for _, node := range candidates {
		if slices.Contains(fitting, node) {
			continue
		}
		if why := p.refuses(m, node); why != "" {
			p.refuse(node, m.Instance, why)
			continue
		}
		fitting = append(fitting, node)
	}
	if len(fitting) == 0 {
		return nil
	}
	best := slices.IndexFunc(fitting, func(node *Node) bool { return node.Name == m.Name })
	if best < 0 {
		best = slices.IndexFunc(fitting, func(node *Node) bool { return node.SpotPool == p.facts.Pool.Name })
	}
	if best < 0 && len(fitting) == 1 {
		best = 0
	}
	for i, node := range fitting {
		if i != best {
			p.refuse(node, m.Instance, "another node says the same of itself")
		}
	}
	if best < 0 {
		return nil
	}
	return fitting[best]
}

// refuses says why a node is not that of a machine though its name or its provider ID says so, "" if it is. What was bought is new, is in
// no pool yet, and has the address that its cloud gave it.
func (p *planner) refuses(m *g8s.SpotMachine, node *Node) string {
	instance := p.byID[m.Instance]
	if why := p.belongsElsewhere(node); why != "" {
		return why
	}
	if node.SpotPool == p.facts.Pool.Name {
		return "" // it was taken before, when the machine was known
	}
	bought := p.boughtAt(m, instance)
	if why := olderThan(node, bought); why != "" {
		return why
	}
	if node.Name == m.Name {
		return ""
	}
	address := m.PrivateIP
	if instance != nil {
		address = cmp.Or(instance.PrivateIP, address)
	}
	switch {
	case bought.IsZero() || node.Created.IsZero():
		return "it has another name than the machine, and the cloud does not say when the machine was made"
	case address != "" && !slices.Contains(node.Addresses, address):
		return "its internal address is not " + address + ", which the cloud gave to the machine"
	}
	return ""
}

// belongsElsewhere says why a node is of somebody else by what no kubelet writes, "" if it may be ours.
func (p *planner) belongsElsewhere(node *Node) string {
	switch pool := p.facts.Pool; {
	case node.ControlPlane:
		return "it is a node of the control plane"
	case node.SpotPool != "" && node.SpotPool != pool.Name:
		return "it is of SpotPool " + node.SpotPool
	case node.SpotPool == "" && node.Pool != "" && node.Pool != pool.Spec.Pool:
		return "it is in pool " + node.Pool
	}
	return ""
}

// boughtAt is when a machine was made, by its cloud, or else when it was asked for; zero where it was found by its tags alone.
func (p *planner) boughtAt(m *g8s.SpotMachine, instance *Instance) time.Time {
	switch {
	case instance != nil && !instance.Created.IsZero():
		return instance.Created
	case p.claimed[m.Name]:
		return m.Requested.Time
	}
	return time.Time{}
}

// olderThan says that a node was there before its machine, "" if it may be that of it.
func olderThan(node *Node, bought time.Time) string {
	if bought.IsZero() || node.Created.IsZero() || !node.Created.Before(bought.Add(-clockSkew)) {
		return ""
	}
	return fmt.Sprintf("it was made at %s, before the machine was bought", node.Created.UTC().Format(time.RFC3339))
}

// isForeign reports whether a machine that was found by its tags alone runs a node of somebody else.
func (p *planner) isForeign(instance *Instance) bool {
	foreign := false
	for i := range p.facts.Nodes {
		node := &p.facts.Nodes[i]
		if !node.claims(instance) || node.SpotPool == p.facts.Pool.Name && !node.ControlPlane {
			continue
		}
		why := p.belongsElsewhere(node)
		if why == "" {
			why = olderThan(node, instance.Created)
		}
		if why != "" {
			p.refuse(node, instance.ID, why)
			foreign = true
		}
	}
	return foreign
}

// claims reports whether a node may run on an instance, by its name, its provider ID or its address.
func (n *Node) claims(instance *Instance) bool {
	named := n.Name == instance.Machine && !n.isOther(instance.ID)
	return named || n.Instance == instance.ID || n.Instance == "" && instance.PrivateIP != "" && slices.Contains(n.Addresses, instance.PrivateIP)
}

// isOther reports whether a node says that it is another instance than this. Some kubelets give their own name for it, and of a
// machine that is being bought the instance is not known.
func (n *Node) isOther(instance string) bool {
	return instance != "" && n.Instance != "" && n.Instance != n.Name && n.Instance != instance
}

// refuse notes a node that is not taken, once.
func (p *planner) refuse(node *Node, instance, why string) {
	refused := RefusedNode{Name: node.Name, Instance: instance, Why: why}
	if !slices.Contains(p.plan.Refused, refused) {
		p.plan.Refused = append(p.plan.Refused, refused)
	}
}

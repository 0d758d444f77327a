package spot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// clockSkew is the tolerated difference between the clocks of a cloud, the API server and gpu-controller.
const clockSkew = 5 * time.Minute

// RefusedNode is a node that claims to run on a machine of the SpotPool, or that the cloud's tags claim for it, and is rejected.
type RefusedNode struct{ Name, Instance, Why string }

// Origin distinguishes the node of a bought machine from other nodes. Its own kubelet writes the provider ID and addresses, so neither proves
// anything alone. The name, the g8s.host/ labels and the creation time are not written by the kubelet.
type Origin struct {
	// Created is when the Node object was created.
	Created time.Time
	// Pool and SpotPool are the values of these labels.
	Pool, SpotPool string
	// ControlPlane says that it has a control plane role or taint.
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

// matchNodes finds the node of each machine, at most one: the node with its name, or the one whose provider ID is its instance.
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
		if node := p.chooseNode(machine, candidates); node != nil {
			p.nodes[machine.Name] = node
		}
	}
}

// chooseNode returns the node of a machine among the candidates: the one with its name, or the one adopted before, or the only other one. If two only
// claim to be it, neither is chosen.
func (p *planner) chooseNode(m *g8s.SpotMachine, candidates []*Node) *Node {
	var fitting []*Node
	for _, node := range candidates {
		if slices.Contains(fitting, node) {
			continue
		}
		if why := p.refusalReason(m, node); why != "" {
			p.recordRefusal(node, m.Instance, why)
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
			p.recordRefusal(node, m.Instance, "another node says the same of itself")
		}
	}
	if best < 0 {
		return nil
	}
	return fitting[best]
}

// refusalReason returns why a node does not belong to a machine although its name or provider ID says so, "" if it does. The node of a bought machine is
// new, is in no pool yet, and has the address that its cloud assigned.
func (p *planner) refusalReason(m *g8s.SpotMachine, node *Node) string {
	instance := p.byID[m.Instance]
	if why := p.foreignReason(node); why != "" {
		return why
	}
	if node.SpotPool == p.facts.Pool.Name {
		return "" // it was adopted before, while the machine was known
	}
	bought := p.boughtAt(m, instance)
	if why := tooOldReason(node, bought); why != "" {
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

// foreignReason returns why a node has another owner, by facts that no kubelet writes, "" if it may be ours.
func (p *planner) foreignReason(node *Node) string {
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

// boughtAt returns when the cloud created a machine, or else when it was requested; zero if it was found only by its tags.
func (p *planner) boughtAt(m *g8s.SpotMachine, instance *Instance) time.Time {
	switch {
	case instance != nil && !instance.Created.IsZero():
		return instance.Created
	case p.claimed[m.Name]:
		return m.Requested.Time
	}
	return time.Time{}
}

// tooOldReason returns a reason if the node is older than its machine, "" if not.
func tooOldReason(node *Node, bought time.Time) string {
	if bought.IsZero() || node.Created.IsZero() || !node.Created.Before(bought.Add(-clockSkew)) {
		return ""
	}
	return fmt.Sprintf("it was made at %s, before the machine was bought", node.Created.UTC().Format(time.RFC3339))
}

// isForeign reports whether a machine found only by its tags runs another owner's node.
func (p *planner) isForeign(instance *Instance) bool {
	foreign := false
	for i := range p.facts.Nodes {
		node := &p.facts.Nodes[i]
		if !node.mayRunOn(instance) || node.SpotPool == p.facts.Pool.Name && !node.ControlPlane {
			continue
		}
		why := p.foreignReason(node)
		if why == "" {
			why = tooOldReason(node, instance.Created)
		}
		if why != "" {
			p.recordRefusal(node, instance.ID, why)
			foreign = true
		}
	}
	return foreign
}

// mayRunOn reports whether a node may run on an instance, by its name, its provider ID or its address.
func (n *Node) mayRunOn(instance *Instance) bool {
	named := n.Name == instance.Machine && !n.isOther(instance.ID)
	return named || n.Instance == instance.ID || n.Instance == "" && instance.PrivateIP != "" && slices.Contains(n.Addresses, instance.PrivateIP)
}

// isOther reports whether a node claims another instance. Some kubelets report their own name instead, and the instance of a machine being bought is
// unknown.
func (n *Node) isOther(instance string) bool {
	return instance != "" && n.Instance != "" && n.Instance != n.Name && n.Instance != instance
}

// recordRefusal records a rejected node, once.
func (p *planner) recordRefusal(node *Node, instance, why string) {
	refused := RefusedNode{Name: node.Name, Instance: instance, Why: why}
	if !slices.Contains(p.plan.Refused, refused) {
		p.plan.Refused = append(p.plan.Refused, refused)
	}
}

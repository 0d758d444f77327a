package spot

import (
	"cmp"

	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// adopt finds the instance of each machine, and makes machines of the instances that have none: those that a status knew of
// which is lost, or that were listed long after they were bought. There may be too many then, as there may be otherwise.
func (p *planner) adopt() {
	for i := range p.facts.Instances {
		p.byID[p.facts.Instances[i].ID] = &p.facts.Instances[i]
	}
	known := map[string]bool{}
	unanswered := map[string]*g8s.SpotMachine{}
	names := map[string]bool{}
	for i := range p.machines {
		machine := &p.machines[i]
		names[machine.Name] = true
		if machine.Instance != "" {
			known[machine.Instance] = true
		} else {
			unanswered[machine.Name] = machine
		}
	}
	var orphans []g8s.SpotMachine
	for i := range p.facts.Instances {
		instance := &p.facts.Instances[i]
		if known[instance.ID] {
			continue
		}
		if machine := unanswered[instance.Machine]; machine != nil {
			machine.Instance = instance.ID
			delete(unanswered, instance.Machine)
			continue
		}
		if instance.State == Ended {
			continue
		}
		name := instance.Machine
		if names[name] || !isMachineName(p.facts.Pool.Name, name) {
			name = machineName(p.facts.Pool.Name, instance.ID)
		}
		names[name] = true
		orphans = append(orphans, g8s.SpotMachine{
			Name: name, InstanceType: instance.InstanceType, Zone: instance.Zone, Instance: instance.ID,
			Requested: p.now(), Asked: ptr.To(p.now()),
		})
	}
	p.machines = append(p.machines, orphans...)
}

// matchNodes finds the node of each machine: the one whose provider ID is its instance, or the one of its name, unless that says
// that it is another instance's.
func (p *planner) matchNodes() {
	byName, byInstance := map[string]*Node{}, map[string]*Node{}
	for i := range p.facts.Nodes {
		node := &p.facts.Nodes[i]
		byName[node.Name] = node
		if node.Instance != "" {
			byInstance[node.Instance] = node
		}
	}
	for i := range p.machines {
		machine := &p.machines[i]
		named := byName[machine.Name]
		if named != nil && named.isOther(machine.Instance) {
			named = nil
		}
		if node := cmp.Or(byInstance[machine.Instance], named); node != nil {
			p.nodes[machine.Name] = node
		}
	}
}

// isOther reports whether a node says that it is another instance than this. Some kubelets give their own name for it, and of a
// machine that is being bought the instance is not known.
func (n *Node) isOther(instance string) bool {
	return instance != "" && n.Instance != "" && n.Instance != n.Name && n.Instance != instance
}

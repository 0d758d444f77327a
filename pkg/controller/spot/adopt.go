package spot

import (
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// adoptInstances matches machines with instances, and creates machines for unmatched instances: from a lost status, or listed long after the purchase. This
// may exceed the wanted number, which is handled as any other excess. It leaves an instance alone that runs another owner's node, whatever its tags
// say, because an adopted machine may be terminated.
func (p *planner) adoptInstances() {
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
		if instance.State == Ended || p.isForeign(instance) {
			continue
		}
		name := instance.Machine
		if names[name] || !isMachineName(p.facts.Pool.Name, name) {
			name = machineName(p.facts.Pool.Name, instance.ID)
		}
		names[name] = true
		orphans = append(orphans, g8s.SpotMachine{
			Name: name, InstanceType: instance.InstanceType, Zone: instance.Zone, Instance: instance.ID,
			Requested: p.decisionTime(), Asked: ptr.To(p.decisionTime()),
		})
	}
	p.machines = append(p.machines, orphans...)
}

package spot

import (
	"testing"
	"time"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestWhoseNameAnAdoptedMachineHas: a tag may have any name, such as that of a node of somebody else, which is not ours by that.
func TestWhoseNameAnAdoptedMachineHas(t *testing.T) {
	for name, tc := range map[string]struct {
		tag, node, provider string
		keeps, takes        bool
	}{
		"a name of ours":                            {tag: "p-0123abcd", node: "p-0123abcd", keeps: true, takes: true},
		"a name of ours, by its instance":           {tag: "p-0123abcd", node: "ip-10-0-0-1", provider: "ins-1", keeps: true, takes: true},
		"a name of ours, and another's node":        {tag: "p-0123abcd", node: "p-0123abcd", provider: "ins-2", keeps: true},
		"a node that gives its own name":            {tag: "p-0123abcd", node: "p-0123abcd", provider: "p-0123abcd", keeps: true, takes: true},
		"the name of a node of somebody else":       {tag: "gpu-node-7", node: "gpu-node-7"},
		"a name that another SpotPool's begin with": {tag: "p-big-0123abcd", node: "p-big-0123abcd"},
		"a name that is longer":                     {tag: "p-0123abcde", node: "p-0123abcde"},
		"another name, and the instance is its own": {tag: "gpu-node-7", node: "gpu-node-7", provider: "ins-1", takes: true},
		"no name": {node: "x"},
	} {
		t.Run(name, func(t *testing.T) {
			plan := Decide(Facts{
				Pool: poolOf(1, 1), Answered: true, Now: t0,
				Instances: []Instance{{ID: "ins-1", Machine: tc.tag, Created: t0.Add(-time.Minute), State: Running}},
				Nodes:     []Node{{Name: tc.node, Instance: tc.provider, Origin: Origin{Created: t0}, Ready: true, Alive: true}},
			})
			if len(plan.Status.Machines) != 1 || plan.Status.Machines[0].Instance != "ins-1" || len(plan.Launch) > 0 {
				t.Fatalf("machines %v, orders %v", plan.Status.Machines, plan.Launch)
			}
			if kept := plan.Status.Machines[0].Name == tc.tag; kept != tc.keeps {
				t.Errorf("it is called %s, keeps its name: %t", plan.Status.Machines[0].Name, tc.keeps)
			}
			if took := len(plan.Nodes) == 1; took != tc.takes {
				t.Errorf("steps of nodes %v, takes the node: %t", plan.Nodes, tc.takes)
			}
		})
	}
}

// TestAnAdoptedMachineIsNotLate: it is as young as its adoption.
func TestAnAdoptedMachineIsNotLate(t *testing.T) {
	plan := Decide(Facts{Pool: poolOf(1, 1), Answered: true, Now: t0, Instances: []Instance{{ID: "ins-1", State: Starting}}})
	later := Decide(Facts{
		Pool: &g8s.SpotPool{ObjectMeta: poolOf(1, 1).ObjectMeta, Spec: poolOf(1, 1).Spec, Status: plan.Status}, Answered: true, Now: t0.Add((15 * time.Minute) - time.Second),
		Instances: []Instance{{ID: "ins-1", State: Starting}},
	})
	if leaving := later.Status.Machines[0].Leaving; leaving != nil {
		t.Errorf("it is to go: %v", leaving)
	}
}

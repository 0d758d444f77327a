package spot

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestWhichNodeIsTaken: a kubelet writes its provider ID and its addresses itself, so a node is taken only if all of it fits what was bought.
func TestWhichNodeIsTaken(t *testing.T) {
	fresh := Origin{Created: t0.Add(time.Minute), Addresses: []string{"fe80::1", "10.0.0.7"}}
	with := func(change func(*Origin)) Origin {
		out := fresh
		change(&out)
		return out
	}
	node := func(name, instance string, origin Origin) Node {
		return Node{Name: name, Instance: instance, Origin: origin, Ready: true, Alive: true}
	}
	for name, tc := range map[string]struct {
		nodes []Node
		// unknown says that the cloud does not say when the instance was made, and that no status knew of it.
		unknown bool
		taken   string
		refused string
	}{
		"a new node that has its provider ID and address": {nodes: []Node{node("ip-10-0-0-7", "ins-1", fresh)}, taken: "ip-10-0-0-7"},
		"another address":    {nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.Addresses = []string{"10.0.0.8"} }))}, refused: "its internal address is not 10.0.0.7"},
		"no address yet":     {nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.Addresses = nil }))}, refused: "its internal address is not 10.0.0.7"},
		"an older node":      {nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.Created = t0.Add(-time.Hour) }))}, refused: "before the machine was bought"},
		"clocks that differ": {nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.Created = t0.Add(-4 * time.Minute) }))}, taken: "x"},
		"a node of another pool": {
			nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.Pool = "dev-pool" }))}, refused: "it is in pool dev-pool",
		},
		"a node of another pool that has the machine's name": {
			nodes: []Node{node("p-0123abcd", "", with(func(o *Origin) { o.Pool = "dev-pool" }))}, refused: "it is in pool dev-pool",
		},
		"an administrator was faster with the pool's label": {
			nodes: []Node{node("p-0123abcd", "", with(func(o *Origin) { o.Pool = "spot-pool" }))}, taken: "p-0123abcd",
		},
		"a node of another SpotPool": {
			nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.SpotPool = "q" }))}, refused: "it is of SpotPool q",
		},
		"a control plane that says it is taken already": {
			nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.SpotPool, o.ControlPlane = "p", true }))}, refused: "control plane",
		},
		"one that was taken, and has been relabelled since": {
			nodes: []Node{node("x", "ins-1", with(func(o *Origin) { o.SpotPool, o.Pool = "p", "dev-pool" }))}, taken: "x",
		},
		"two that say the same": {
			nodes: []Node{node("x", "ins-1", fresh), node("y", "ins-1", fresh)}, refused: "another node says the same of itself",
		},
		"one that says the same as the one that was taken": {
			nodes: []Node{node("x", "ins-1", fresh), node("y", "ins-1", with(func(o *Origin) { o.SpotPool = "p" }))},
			taken: "y", refused: "another node says the same of itself",
		},
		"one that says the same as the one of the machine's name": {
			nodes: []Node{node("x", "ins-1", fresh), node("p-0123abcd", "ins-1", fresh)},
			taken: "p-0123abcd", refused: "another node says the same of itself",
		},
		"a machine of which nothing says when it was made": {
			nodes: []Node{node("x", "ins-1", fresh)}, unknown: true, refused: "the cloud does not say when",
		},
		"its name, though nothing says when it was made": {nodes: []Node{node("p-0123abcd", "", fresh)}, unknown: true, taken: "p-0123abcd"},
	} {
		t.Run(name, func(t *testing.T) {
			pool := poolOf(1, 1)
			pool.Spec.Pool = "spot-pool"
			instance := Instance{ID: "ins-1", Machine: "p-0123abcd", PrivateIP: "10.0.0.7", State: Running}
			if !tc.unknown {
				instance.Created = t0
				pool.Status.Machines = []g8s.SpotMachine{{Name: "p-0123abcd", Instance: "ins-1", Requested: metav1.NewTime(t0), Listed: true}}
			}
			plan := Decide(Facts{Pool: pool, Answered: true, Now: t0.Add(2 * time.Minute), Instances: []Instance{instance}, Nodes: tc.nodes})
			taken := ""
			if len(plan.Nodes) > 0 {
				taken = plan.Nodes[0].Name
			}
			if taken != tc.taken || len(plan.Nodes) > 1 {
				t.Errorf("takes %v, want %q", plan.Nodes, tc.taken)
			}
			if tc.refused == "" && len(plan.Refused) > 0 || tc.refused != "" && (len(plan.Refused) == 0 || !strings.Contains(plan.Refused[0].Why, tc.refused)) {
				t.Errorf("refuses %v, want %q", plan.Refused, tc.refused)
			}
		})
	}
}

// TestAForeignInstanceIsNotEnded: an adopted machine may be ended as one too many, so an instance of somebody else is not adopted, whether its
// node says so by its provider ID, its name or its address.
func TestAForeignInstanceIsNotEnded(t *testing.T) {
	control := Origin{Created: t0.Add(-time.Hour), ControlPlane: true}
	addressed := control
	addressed.Addresses = []string{"10.0.0.9"}
	for name, node := range map[string]Node{
		"by its provider ID":      {Name: "cp", Instance: "ins-9", Origin: control},
		"by its name":             {Name: "control-plane-1", Origin: control},
		"by its address":          {Name: "cp", Origin: addressed},
		"of another pool":         {Name: "cp", Instance: "ins-9", Origin: Origin{Pool: "dev-pool"}},
		"older than the instance": {Name: "cp", Instance: "ins-9", Origin: Origin{Created: t0.Add(-time.Hour)}},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := Instance{ID: "ins-9", Machine: "control-plane-1", PrivateIP: "10.0.0.9", Created: t0, State: Running}
			plan := Decide(Facts{Pool: poolOf(0, 0), Answered: true, Now: t0.Add(time.Hour), Instances: []Instance{foreign}, Nodes: []Node{node}})
			if len(plan.Status.Machines) > 0 || len(plan.Terminate) > 0 || len(plan.Nodes) > 0 || len(plan.Refused) != 1 {
				t.Errorf("machines %v, ended %v, nodes %v, refused %v", plan.Status.Machines, plan.Terminate, plan.Nodes, plan.Refused)
			}
		})
	}
}

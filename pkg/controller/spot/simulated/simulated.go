// Package simulated is a cloud without machines, for sandboxes, demonstrations and tests: each machine is a Node whose kubelet kwok simulates. All
// state of a machine is on its Node, so that every reader sees the same.
//
// A machine starts as a Node with a stopped kubelet, which kwok ignores until the machine has booted. It ends on request, or at the time in its
// annotation g8s.host/interruption, which simulates a reclaim: its kubelet goes silent, and the Node stays until it is deleted, as with real
// machines.
package simulated

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/spot"
)

// Labels and annotations that kwok and the sandbox read: see pkg/sandbox/kwok.go and nodepower.go.
const (
	annotationKwok = "kwok.x-k8s.io/node"
	valueKwok      = "fake"
	labelKubelet   = "sandbox.g8s.host/kubelet"
	valueStopped   = "stopped"
)

// State of a machine on its Node.
const (
	labelMachine    = "sandbox.g8s.host/machine-of"
	annotationToken = "sandbox.g8s.host/machine-token"
	annotationEnded = "sandbox.g8s.host/machine-ended"
)

// Connect returns a function that connects to the cloud of a cluster.
func Connect(c client.Client, live client.Reader, now clock.PassiveClock) spot.Connect {
	var buying sync.Mutex
	return func(account spot.Account) (spot.Cloud, error) {
		if account.Template.Simulated == nil {
			return nil, &spot.Error{Kind: spot.Refused, Text: "template.simulated says what simulated machines are like, and is missing"}
		}
		return &cloud{client: c, live: live, clock: now, account: account, buying: &buying}, nil
	}
}

type cloud struct {
	client client.Client
	// live reads what is committed.
	live    client.Reader
	clock   clock.PassiveClock
	account spot.Account
	// buying serializes purchases, because each counts the existing machines.
	buying *sync.Mutex
}

// Launch creates the Node of a machine, unless it exists or the zone has no more machines.
func (c *cloud) Launch(ctx context.Context, order spot.Order) (string, error) {
	c.buying.Lock()
	defer c.buying.Unlock()
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return "", err
	}
	taken := 0
	for i := range nodes {
		node := &nodes[i]
		if node.Annotations[annotationToken] == order.Token {
			return node.Name, nil
		}
		if node.Annotations[annotationEnded] == "" && node.Labels[corev1.LabelInstanceTypeStable] == order.InstanceType &&
			node.Labels[corev1.LabelTopologyZone] == order.Zone {
			taken++
		}
	}
	if most := c.account.Template.Simulated.MachinesPerZone; most != nil && taken >= int(*most) {
		return "", &spot.Error{Kind: spot.SoldOut, Code: "Simulated"}
	}
	err = c.client.Create(ctx, c.newNode(order))
	if apierrors.IsAlreadyExists(err) {
		return "", &spot.Error{Kind: spot.Lost, Code: "Simulated"} // it was created meanwhile, or has another owner
	}
	if err != nil {
		return "", fmt.Errorf("making the node of a simulated machine: %w", err)
	}
	return order.Machine, nil
}

// newNode returns the Node of a booting machine.
func (c *cloud) newNode(order spot.Order) *corev1.Node {
	template := c.account.Template
	count := strconv.Itoa(int(template.GPUs))
	labels := map[string]string{
		corev1.LabelHostname: order.Machine, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		corev1.LabelTopologyZone: order.Zone, corev1.LabelInstanceTypeStable: order.InstanceType,
		g8s.LabelCount: count, g8s.LabelNVIDIACount: count, labelMachine: c.account.Owner.Pool, labelKubelet: valueStopped,
	}
	if region := c.account.Provider.Region; region != "" {
		labels[corev1.LabelTopologyRegion] = region
	}
	resources := corev1.ResourceList{
		corev1.ResourceCPU: template.Simulated.CPU, corev1.ResourceMemory: template.Simulated.Memory,
		corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
		g8s.ResourceGPU: *resource.NewQuantity(int64(template.GPUs), resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: order.Machine, Labels: labels, Annotations: map[string]string{annotationToken: order.Token, annotationKwok: valueKwok},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "simulated:///" + order.Zone + "/" + order.Machine,
			Taints:     []corev1.Taint{{Key: g8s.TaintJoining, Effect: corev1.TaintEffectNoSchedule}},
		},
		Status: corev1.NodeStatus{Capacity: resources, Allocatable: resources.DeepCopy()},
	}
}

// listNodes returns the Nodes of the SpotPool's machines.
func (c *cloud) listNodes(ctx context.Context) ([]corev1.Node, error) {
	var list corev1.NodeList
	if err := c.live.List(ctx, &list, client.MatchingLabels{labelMachine: c.account.Owner.Pool}); err != nil {
		return nil, fmt.Errorf("listing simulated machines: %w", err)
	}
	return list.Items, nil
}

// List advances the state of the machines and returns them.
func (c *cloud) List(ctx context.Context, _ []string) ([]spot.Instance, error) {
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return nil, err
	}
	var out []spot.Instance
	for i := range nodes {
		node := &nodes[i]
		instance := spot.Instance{
			ID: node.Name, Machine: node.Name, InstanceType: node.Labels[corev1.LabelInstanceTypeStable],
			Zone: node.Labels[corev1.LabelTopologyZone], Created: node.CreationTimestamp.Time, State: spot.Running,
		}
		if at, err := time.Parse(time.RFC3339, node.Annotations[g8s.AnnotationInterruption]); err == nil {
			instance.Interruption = at
		}
		booted := node.CreationTimestamp.Add(time.Duration(c.account.Template.Simulated.BootSeconds) * time.Second)
		now := c.clock.Now()
		switch {
		case node.Annotations[annotationEnded] != "":
			instance.State = spot.Ended
		case !instance.Interruption.IsZero() && !now.Before(instance.Interruption):
			instance.State = spot.Ended
			err = c.endMachine(ctx, node)
		case now.Before(booted):
			instance.State = spot.Starting
		case node.Labels[labelKubelet] == valueStopped && isNew(node):
			err = c.bootNode(ctx, node)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, instance)
	}
	return out, nil
}

// isNew reports whether no kubelet has reported for a node yet.
func isNew(node *corev1.Node) bool { return len(node.Status.Conditions) == 0 }

// bootNode starts the kubelet of a node.
func (c *cloud) bootNode(ctx context.Context, node *corev1.Node) error {
	changed := node.DeepCopy()
	delete(changed.Labels, labelKubelet)
	return c.patchNode(ctx, node, changed)
}

// endMachine stops a kubelet for good.
func (c *cloud) endMachine(ctx context.Context, node *corev1.Node) error {
	changed := node.DeepCopy()
	changed.Labels[labelKubelet] = valueStopped
	metav1.SetMetaDataAnnotation(&changed.ObjectMeta, annotationEnded, c.clock.Now().UTC().Format(time.RFC3339))
	return c.patchNode(ctx, node, changed)
}

func (c *cloud) patchNode(ctx context.Context, before, after *corev1.Node) error {
	if err := c.client.Patch(ctx, after, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing simulated machine %s: %w", before.Name, err)
	}
	return nil
}

// Terminate ends machines.
func (c *cloud) Terminate(ctx context.Context, ids []string) error {
	nodes, err := c.listNodes(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		for i := range nodes {
			if nodes[i].Name != id || nodes[i].Annotations[annotationEnded] != "" {
				continue
			}
			if err := c.endMachine(ctx, &nodes[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

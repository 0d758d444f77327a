package card

import (
	"context"
	"slices"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// showInventory: what the node says of its cards is what nvidia-smi says.
func showInventory(t *testing.T, b *bed) string {
	card := b.cards[0]
	said := text("%d × %s, %d MiB", len(b.cards), card.Product, card.MemoryMiB)
	if b.mock {
		return said
	}
	checked, node := b.check(t), b.current(t)
	for _, fact := range checked.Facts {
		if fact.Differs {
			t.Errorf("%s, %s: the agent says %q, nvidia-smi %q", fact.Of, fact.Name, fact.Agent, fact.SMI)
		}
	}
	if told := node.Annotations[g8s.AnnotationInventory]; told != checked.Inventory {
		t.Errorf("the node says\n%s\nwant\n%s", told, checked.Inventory)
	}
	for name, want := range checked.Labels {
		if got := node.Labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	if card.ReservedMiB == nil {
		t.Error("the agent does not say what the driver keeps of the memory")
	} else {
		said += text(", of which the driver keeps %d", *card.ReservedMiB)
	}
	return said + ", type " + node.Labels[g8s.LabelGPUType] + ": as nvidia-smi says"
}

// showWhole: a pod with a card sees that card, by the driver.
func showWhole(t *testing.T, b *bed) string {
	began := time.Now()
	b.create(t, withCard(pod("whole", "see")))
	said := b.await(t, "whole", "end")
	took := time.Since(began)
	b.sees(t, "whole", said)
	return text("the driver shows %v, with %d MiB, %s after it was created", said["see"].UUIDs, said["see"].TotalMiB, took.Round(10*time.Millisecond))
}

// showNone: a pod without cards sees none.
func showNone(t *testing.T, b *bed) string {
	b.create(t, pod("none", "see"))
	said := b.await(t, "none", "end")
	if wrong := seesNone(said); wrong != "" {
		t.Error(wrong)
	}
	return text("no device node, %s", said["load"].Error)
}

// showRestarts: while a pod computes, agent, kubelet and containerd are each killed and started again; its card is given to nobody else.
func showRestarts(t *testing.T, b *bed) string {
	b.create(t, withCard(pod("computes", "compute", "600")))
	before := b.await(t, "computes", "compute")
	if code := before["compute"].Code; code != 0 && !b.mock {
		t.Fatalf("the kernel ends with code %d", code)
	}
	for i := 1; i < len(b.cards); i++ {
		b.create(t, withCard(pod(text("beside-%d", i), "compute", "600")))
	}
	b.create(t, withCard(pod("waits", "see")))
	held := b.read(t, "computes").Status.ContainerStatuses
	for _, part := range []struct {
		name  string
		start func(context.Context) error
	}{{realnode.AgentName, b.node.StartAgent}, {realnode.KubeletName, b.node.StartKubelet}, {realnode.ContainerdName, b.node.StartContainerd}} {
		if err := b.cluster.FindProcess(part.name).Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-b.cluster.FindProcess(part.name).Done()
		if err := part.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the card to be offered after "+part.name+" was killed", func(context.Context) bool {
			node := b.current(t)
			quantity := node.Status.Allocatable[g8s.ResourceGPU]
			ready := condition.OfNode(node, corev1.NodeReady)
			return quantity.Value() == int64(len(b.cards)) && ready != nil && ready.Status == corev1.ConditionTrue
		})
		time.Sleep(3 * time.Second) // in which a card that is taken for free would be given away
		now, waiting := b.read(t, "computes"), b.read(t, "waits")
		if waiting.Spec.NodeName != "" {
			t.Errorf("after %s was killed the other pod was bound", part.name)
		}
		if len(now.Status.ContainerStatuses) == 0 || now.Status.ContainerStatuses[0].ContainerID != held[0].ContainerID || now.Status.Phase != corev1.PodRunning {
			t.Errorf("after %s was killed the pod that computes is %+v", part.name, now.Status)
		}
	}
	b.remove(t, "computes")
	b.sees(t, "waits", b.await(t, "waits", "end"))
	return "agent, kubelet and containerd each killed: the pod computes on, its card is given to the next pod when it has ended"
}

// showFault: a program that writes where no memory is ends itself, and takes the card from nobody.
func showFault(t *testing.T, b *bed) string {
	before := b.xids(t.Context())
	b.create(t, withCard(pod("faulty", "fault")))
	said := b.await(t, "faulty", "end")
	if b.mock {
		return "not with cards that do not exist"
	}
	if code := said["fault"].Code; code != codeIllegalAddress {
		t.Fatalf("the kernel ends with code %d, want %d: %+v", code, codeIllegalAddress, said)
	}
	took := eventually(t, "the agent to count the XID", func(ctx context.Context) bool { return sum(b.xids(ctx)) > sum(before) })
	time.Sleep(2 * time.Second)
	inventory, err := gpu.ParseInventory(b.current(t).Annotations[g8s.AnnotationInventory])
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(inventory.GPUs, func(card gpu.GPU) bool { return card.Health != gpu.Healthy }) {
		t.Errorf("the inventory is %+v, want healthy cards", inventory)
	}
	b.create(t, withCard(pod("after", "compute", "1")))
	after := b.await(t, "after", "computed")
	b.sees(t, "after", after)
	if code := after["computed"].Code; code != 0 {
		t.Errorf("the next pod's kernel ends with code %d", code)
	}
	return text("code %d, told as %v; %v; counted %s later, the card is healthy and the next pod computes", said["fault"].Code, b.xids(t.Context()),
		b.logOf(realnode.AgentName, `"xid"`), took.Round(time.Millisecond))
}

func sum(counts map[string]float64) (all float64) {
	for _, count := range counts {
		all += count
	}
	return all
}

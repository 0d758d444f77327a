package inventory

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// BrokenGPU is a GPU that must not be used, as its node's agent found it.
type BrokenGPU struct {
	Node string `json:"node"`
	// Pod is the holder, if requested.
	Pod   string `json:"pod,omitempty"`
	Index int    `json:"index"`
	UUID  string `json:"uuid"`
	// Health is one word for the fault, such as Xid79, and Message describes it in a sentence that continues the GPU's name.
	Health  string `json:"health"`
	Message string `json:"message"`
	// Since is when it was found so, where that is known.
	Since time.Time `json:"since,omitzero"`
	// Advice is what administrators do about it.
	Advice string `json:"advice"`
}

func brokenGPU(node string, card *gpu.GPU) BrokenGPU {
	says := reason.GPUFaultOf(card.Health)
	return BrokenGPU{
		Node: node, Index: card.Index, UUID: card.UUID, Health: card.Health, Message: says.Message.String(), Since: card.Since, Advice: says.Remedy.String(),
	}
}

func brokenGPUsOn(node *corev1.Node) []BrokenGPU {
	var out []BrokenGPU
	for _, card := range gpu.BrokenGPUsOn(node) {
		out = append(out, brokenGPU(node.Name, &card))
	}
	return out
}

// fillFromNode fills in what a pod's node reports of its devices, and returns the broken ones.
func (p *Pod) fillFromNode(node *corev1.Node) []BrokenGPU {
	p.Slices = gpu.SlicesUnder(node, p.UID, p.Slices)
	var out []BrokenGPU
	for _, card := range gpu.BrokenGPUsOn(node) {
		held := slices.ContainsFunc(p.GPUs, func(device gpu.Device) bool { return device.UUID == card.UUID }) ||
			slices.ContainsFunc(p.Slices, func(slice gpu.Slice) bool { return slice.ParentUUID == card.UUID })
		if held {
			broken := brokenGPU(node.Name, &card)
			broken.Pod = p.Name
			out = append(out, broken)
		}
	}
	return out
}

// fillHeldDevices fills in what a pod of the job holds by its own annotations.
func (d *JobDetail) fillHeldDevices(pod *corev1.Pod) {
	at := slices.IndexFunc(d.Pods, func(p Pod) bool { return p.UID == pod.UID && p.Name == pod.Name })
	if at < 0 {
		return
	}
	d.Pods[at].GPUs, d.Pods[at].Slices = gpu.DevicesOf(pod), gpu.ChosenSlices(pod)
	if request, err := gpu.RequestOf(pod); err == nil {
		d.Pods[at].sliced = request.MIG > 0
	}
}

// holdsKnownDevices reports whether a pod holds devices that its node knows of.
func (p *Pod) holdsKnownDevices() bool {
	return (len(p.GPUs) > 0 || p.sliced) && p.Node != "" && !p.hasEnded()
}

// HasMIGSlices reports whether pods of the job request MIG slices, which their nodes can identify.
func (d *JobDetail) HasMIGSlices() bool {
	return slices.ContainsFunc(d.Pods, func(pod Pod) bool { return pod.sliced })
}

// FillDevices fills in what nodes report of the devices of the jobs' pods, if the user may read nodes: their MIG slices, and broken devices. It takes one
// request for each of their nodes, or one in all.
func (r *Reader) FillDevices(ctx context.Context, jobs []JobDetail) error {
	var nodes []string
	for i := range jobs {
		for j := range jobs[i].Pods {
			if pod := &jobs[i].Pods[j]; pod.holdsKnownDevices() {
				nodes = append(nodes, pod.Node)
			}
		}
	}
	slices.Sort(nodes)
	if nodes = slices.Compact(nodes); len(nodes) == 0 {
		return nil
	}
	read, err := snapshot.Read(ctx, r.client, snapshot.NodesNamed(nodes...).IfAllowed())
	if err != nil {
		return err
	}
	for i := range jobs {
		for j := range jobs[i].Pods {
			pod := &jobs[i].Pods[j]
			at := slices.IndexFunc(read.Nodes, func(node corev1.Node) bool { return node.Name == pod.Node })
			if at >= 0 && pod.holdsKnownDevices() {
				jobs[i].Broken = append(jobs[i].Broken, pod.fillFromNode(&read.Nodes[at])...)
			}
		}
	}
	return nil
}

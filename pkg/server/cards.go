package server

import (
	"context"
	"strconv"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// NodeGPUs are the GPUs of a node.
type NodeGPUs struct {
	NodeName string    `json:"nodeName"`
	GPUCount int       `json:"gpuCount"`
	GPUs     []NodeGPU `json:"gpus"`
}

// NodeGPU is one GPU.
type NodeGPU struct {
	GPUID     string         `json:"gpuId" example:"gpu-0"`
	UUID      string         `json:"uuid,omitempty"`
	Type      string         `json:"type"`
	Status    string         `json:"status" enum:"free,used,shared,unhealthy" doc:"used as well when a pod holds it or another of the node, and only the node knows which"`
	Health    string         `json:"health,omitempty" doc:"One word for what is wrong with an unhealthy one"`
	MemoryMiB int64          `json:"memoryMiB,omitempty"`
	SharedMiB int64          `json:"sharedMiB,omitempty" doc:"Memory of a shared GPU that pods have"`
	Holders   []usage.Holder `json:"holders,omitempty" doc:"The pods that have it, if you may list pods there"`
}

// NodeGPUList is a page of nodes with their GPUs.
type NodeGPUList Page[NodeGPUs]

type nodeGPUsInput struct{ Paging }

type nodeGPUsOutput struct{ Body NodeGPUList }

func (s *Server) listNodeGPUs(ctx context.Context, in *nodeGPUsInput) (*nodeGPUsOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	scope, err := caller.FindScope(ctx, view.jobNamespaces, podResource)
	if err != nil {
		return nil, err
	}
	nodes := make([]*inventory.Node, len(view.Nodes))
	for i := range view.Nodes {
		nodes[i] = &view.Nodes[i]
	}
	cards := view.gpusByNode()
	list, err := cutPage(in.Paging, nodes, nodeKey, func(node *inventory.Node) NodeGPUs {
		return nodeGPUs(node, cards[node.Name], scope)
	})
	return &nodeGPUsOutput{Body: NodeGPUList(list)}, err
}

// gpuUsage returns which pod holds which GPU. It is computed once per view.
func (v *view) gpuUsage() *usage.Usage {
	v.findUsage.Do(func() {
		v.cachedUsage, v.cachedGPUs = usage.Build(v.Objects, gpumetrics.Samples{}), map[string][]usage.GPU{}
		for _, card := range v.cachedUsage.GPUs {
			v.cachedGPUs[card.Node] = append(v.cachedGPUs[card.Node], card)
		}
	})
	return &v.cachedUsage
}

// gpusByNode returns the GPUs of all nodes, by node.
func (v *view) gpusByNode() map[string][]usage.GPU {
	v.gpuUsage()
	return v.cachedGPUs
}

func nodeGPUs(node *inventory.Node, cards []usage.GPU, scope access.Scope) NodeGPUs {
	out := NodeGPUs{NodeName: node.Name, GPUCount: len(cards), GPUs: make([]NodeGPU, len(cards))}
	for i, card := range cards {
		out.GPUs[i] = NodeGPU{
			GPUID: "gpu-" + strconv.Itoa(card.Index), UUID: card.UUID, Type: card.GPUType, Health: card.Health,
			Status: gpuStatus(card.State), MemoryMiB: card.MemoryMiB, SharedMiB: card.SharedMiB,
		}
		for _, holder := range card.Holders {
			if scope.Has(holder.Namespace) {
				out.GPUs[i].Holders = append(out.GPUs[i].Holders, holder)
			}
		}
	}
	return out
}

// gpuStatus maps a state to the term of the first gpuctl, where it had one.
func gpuStatus(state usage.State) string {
	switch state {
	case usage.Whole, usage.Held:
		return "used"
	}
	return string(state)
}

package server

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
)

// NodeItem is a node of a list.
type NodeItem struct {
	NodeName   string                   `json:"nodeName"`
	Status     string                   `json:"status" enum:"active,cordoned,not_ready,suspect,not_admitted,out_of_service,leaving,joining"`
	GPUTotal   int64                    `json:"gpuTotal"`
	GPUUsed    int64                    `json:"gpuUsed"`
	GPUFree    int64                    `json:"gpuFree" doc:"What new pods could get: 0 on nodes that take none, and no unhealthy GPU"`
	Unhealthy  int64                    `json:"gpuUnhealthy,omitempty" doc:"GPUs that no new pod gets because they are not healthy"`
	SharedGPUs *inventory.GPUs          `json:"sharedGpus,omitempty" doc:"Slots on shared GPUs"`
	MIG        []inventory.ProfileCount `json:"mig,omitempty" doc:"MIG slices, by profile"`
	GPUType    string                   `json:"gpuType"`
	GPUMemory  string                   `json:"gpuMemory,omitempty" doc:"Memory of each GPU" example:"80Gi"`
	BoundPools []string                 `json:"boundPools"`
	CPU        string                   `json:"cpu" doc:"CPUs that pods may have" example:"128"`
	Memory     string                   `json:"memory" example:"1Ti"`
	Pods       int                      `json:"pods"`
	CreatedAt  time.Time                `json:"createdAt"`
	// States are those of the node; none for one that is as it must be.
	States []nodestate.State `json:"states,omitempty" doc:"What gpu-controller makes of the node, by code and parameters"`
}

// NodeDetail is the full description of a node.
type NodeDetail struct {
	NodeName     string          `json:"nodeName"`
	Status       string          `json:"status" enum:"active,cordoned,not_ready,suspect,not_admitted,out_of_service,leaving,joining"`
	Resources    NodeResources   `json:"resources"`
	Labels       []Label         `json:"labels" doc:"Sorted by key"`
	Conditions   []NodeCondition `json:"conditions" doc:"What the node's kubelet and controllers say of it"`
	BoundPools   []string        `json:"boundPools"`
	GPUType      string          `json:"gpuType"`
	GPUMemory    string          `json:"gpuMemory,omitempty"`
	Interconnect string          `json:"interconnect,omitempty"`
	Rack         string          `json:"rack,omitempty"`
	Pods         int             `json:"pods"`
	CreatedAt    time.Time       `json:"createdAt"`
	// States are those of the node; none for one that is as it must be.
	States []nodestate.State `json:"states,omitempty" doc:"What gpu-controller makes of the node, by code and parameters"`
}

// NodeResources are the resources of a node and the requests of its pods.
type NodeResources struct {
	CPUTotal    string                   `json:"cpuTotal"`
	CPUUsed     string                   `json:"cpuUsed" doc:"What pods asked, which is what schedulers count"`
	MemoryTotal string                   `json:"memoryTotal"`
	MemoryUsed  string                   `json:"memoryUsed"`
	GPUTotal    int64                    `json:"gpuTotal"`
	GPUUsed     int64                    `json:"gpuUsed"`
	GPUFree     int64                    `json:"gpuFree" doc:"What new pods could get: 0 on nodes that take none, and no unhealthy GPU"`
	Unhealthy   int64                    `json:"gpuUnhealthy,omitempty" doc:"GPUs that no new pod gets because they are not healthy"`
	SharedGPUs  *inventory.GPUs          `json:"sharedGpus,omitempty"`
	MIG         []inventory.ProfileCount `json:"mig,omitempty" doc:"MIG slices, by profile"`
}

// NodeCondition is a condition of a node, such as Ready.
type NodeCondition struct {
	Type    string    `json:"type" example:"Ready"`
	Status  string    `json:"status" enum:"True,False,Unknown"`
	Reason  string    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since" doc:"When the status changed last"`
}

// Label is a key and its value.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type nodeListInput struct {
	Paging
	Pool    string `query:"pool"`
	GPUType string `query:"gpuType"`
	Status  string `query:"status" enum:"active,cordoned,not_ready,suspect,not_admitted,out_of_service,leaving,joining"`
}

// NodeList is a page of nodes.
type NodeList Page[NodeItem]

type nodeListOutput struct{ Body NodeList }

// NodeRef names a node in a path.
type NodeRef struct {
	Node string `path:"nodeName" maxLength:"253"`
}

type nodeOutput struct {
	ETagged
	Body NodeDetail
}

func (s *Server) nodeRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/nodes", id: "listNodes", tag: "nodes",
		summary: "List nodes with their GPUs", fails: []int{http.StatusUnprocessableEntity}}, s.listNodes)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/nodes/gpu-detail", id: "listNodeGPUs", tag: "nodes",
		summary: "List every GPU of every node: its type, and who has it",
		fails:   []int{http.StatusUnprocessableEntity}}, s.listNodeGPUs)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/nodes/{nodeName}", id: "getNode", tag: "nodes",
		summary: "All about a node", fails: []int{http.StatusNotFound}}, s.getNode)
}

func (s *Server) listNodes(ctx context.Context, in *nodeListInput) (*nodeListOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	created := creationTimes(view.Objects.Nodes)
	var matching []*inventory.Node
	for i := range view.Nodes {
		if in.matchesNode(&view.Nodes[i]) {
			matching = append(matching, &view.Nodes[i])
		}
	}
	list, err := cutPage(in.Paging, matching, nodeKey, func(node *inventory.Node) NodeItem {
		return nodeItem(node, created[node.Name])
	})
	return &nodeListOutput{Body: NodeList(list)}, err
}

func (in *nodeListInput) matchesNode(node *inventory.Node) bool {
	return (in.Pool == "" || in.Pool == node.Pool) && (in.GPUType == "" || in.GPUType == node.GPUType) &&
		(in.Status == "" || in.Status == nodeStatus(node))
}

func nodeKey(node *inventory.Node) string { return node.Name }

func creationTimes(nodes []corev1.Node) map[string]time.Time {
	out := make(map[string]time.Time, len(nodes))
	for i := range nodes {
		out[nodes[i].Name] = nodes[i].CreationTimestamp.Time
	}
	return out
}

func nodeStatus(node *inventory.Node) string {
	switch {
	case node.Is(nodestate.OutOfService):
		return "out_of_service"
	case !node.Ready:
		return "not_ready"
	case node.Cordoned:
		return "cordoned"
	case node.Is(nodestate.NotAdmitted):
		return "not_admitted"
	case node.Is(nodestate.Suspect):
		return "suspect"
	case node.Is(nodestate.Leaving):
		return "leaving"
	case node.Is(nodestate.Joining):
		return "joining"
	}
	return "active"
}

func nodeItem(node *inventory.Node, created time.Time) NodeItem {
	return NodeItem{
		NodeName: node.Name, Status: nodeStatus(node), SharedGPUs: node.SharedGPUs,
		GPUTotal: node.GPUs.Allocatable, GPUUsed: node.GPUs.Used, GPUFree: node.GPUs.Free, Unhealthy: node.GPUs.Unhealthy,
		GPUType: node.GPUType, GPUMemory: node.MemoryPerGPU, BoundPools: []string{node.Pool},
		CPU: node.CPU.Allocatable.String(), Memory: node.Memory.Allocatable.String(), Pods: node.Pods, CreatedAt: created,
		States: node.States, MIG: node.MIG,
	}
}

func nodeConditions(all []corev1.NodeCondition) []NodeCondition {
	out := make([]NodeCondition, len(all))
	for i, c := range all {
		out[i] = NodeCondition{
			Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message, Since: c.LastTransitionTime.Time,
		}
	}
	return out
}

func (s *Server) getNode(ctx context.Context, in *NodeRef) (*nodeOutput, error) {
	view, object, err := s.findNode(ctx, in.Node)
	if err != nil {
		return nil, err
	}
	node, _ := view.FindNode(in.Node) // present, because its object is
	return &nodeOutput{ETagged: ETagged{objectETag(object)}, Body: NodeDetail{
		NodeName: node.Name, Status: nodeStatus(&node), Labels: sortedLabels(object.Labels), BoundPools: []string{node.Pool},
		GPUType: node.GPUType, GPUMemory: node.MemoryPerGPU, Interconnect: node.Interconnect, Rack: node.Rack, Pods: node.Pods,
		CreatedAt: object.CreationTimestamp.Time, States: node.States, Conditions: nodeConditions(object.Status.Conditions),
		Resources: NodeResources{
			CPUTotal: node.CPU.Allocatable.String(), CPUUsed: node.CPU.Requested.String(),
			MemoryTotal: node.Memory.Allocatable.String(), MemoryUsed: node.Memory.Requested.String(),
			GPUTotal: node.GPUs.Allocatable, GPUUsed: node.GPUs.Used, GPUFree: node.GPUs.Free, Unhealthy: node.GPUs.Unhealthy, SharedGPUs: node.SharedGPUs,
			MIG: node.MIG,
		},
	}}, nil
}

// findNode returns a cached node to a caller that may list nodes.
func (s *Server) findNode(ctx context.Context, name string) (*view, *corev1.Node, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, nil, err
	}
	i := slices.IndexFunc(view.Objects.Nodes, func(node corev1.Node) bool { return node.Name == name })
	if i < 0 {
		return nil, nil, notFoundErrorf("node %q not found", name)
	}
	return view, &view.Objects.Nodes[i], nil
}

func sortedLabels(labels map[string]string) []Label {
	out := make([]Label, 0, len(labels))
	for key, value := range labels {
		out = append(out, Label{Key: key, Value: value})
	}
	slices.SortFunc(out, func(a, b Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}

package server

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

type labelSearchInput struct {
	Paging
	Key string `query:"key" maxLength:"317" doc:"The key to look for; without it, every label of every node"`
}

// LabelOfNode is one label of one node.
type LabelOfNode struct {
	NodeName   string `json:"nodeName"`
	LabelKey   string `json:"labelKey"`
	LabelValue string `json:"labelValue"`
}

// LabelOfNodeList is a page of labels.
type LabelOfNodeList Page[LabelOfNode]

type labelSearchOutput struct{ Body LabelOfNodeList }

// GPULabels are the labels of a node that say something about its GPUs.
type GPULabels struct {
	NodeName   string   `json:"nodeName"`
	GPULabels  []Label  `json:"gpuLabels"`
	BoundPools []string `json:"boundPools"`
}

// GPULabelsList is a page of nodes with their labels.
type GPULabelsList Page[GPULabels]

type gpuLabelsOutput struct{ Body GPULabelsList }

type allLabelsOutput struct {
	Body map[string][]string `doc:"The values of each key, sorted"`
}

func (s *Server) labelListRoutes() {
	invalid := []int{http.StatusUnprocessableEntity}
	registerRoute(s, route{method: http.MethodGet, path: Root + "/nodes/labels", id: "findNodeLabels", tag: "labels",
		summary: "The nodes that have a label, with its value; without a key, all labels", fails: invalid}, s.findLabels)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/nodes/labels/all", id: "listGPULabels", tag: "labels",
		summary: "The labels of all nodes that say something about GPUs", fails: invalid}, s.listGPULabels)
	registerRoute(s, route{method: http.MethodGet, path: Root + "/labels", id: "listLabels", tag: "labels",
		summary: "Every key of a label of a node, with its values"}, s.listLabels)
}

// nodesByName returns the cached nodes, sorted by name.
func (v *view) nodesByName() []*corev1.Node {
	out := make([]*corev1.Node, len(v.Objects.Nodes))
	for i := range v.Objects.Nodes {
		out[i] = &v.Objects.Nodes[i]
	}
	slices.SortFunc(out, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func nodeName(node *corev1.Node) string { return node.Name }

func (s *Server) findLabels(ctx context.Context, in *labelSearchInput) (*labelSearchOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	var found []LabelOfNode
	for _, node := range view.nodesByName() {
		for _, label := range sortedLabels(node.Labels) {
			if in.Key == "" || label.Key == labelKey(in.Key) {
				found = append(found, LabelOfNode{NodeName: node.Name, LabelKey: label.Key, LabelValue: label.Value})
			}
		}
	}
	id := func(l LabelOfNode) string { return l.NodeName + "\x00" + l.LabelKey }
	list, err := cutPage(in.Paging, found, id, func(l LabelOfNode) LabelOfNode { return l })
	return &labelSearchOutput{Body: LabelOfNodeList(list)}, err
}

func (s *Server) listGPULabels(ctx context.Context, in *nodeGPUsInput) (*gpuLabelsOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	list, err := cutPage(in.Paging, view.nodesByName(), nodeName, func(node *corev1.Node) GPULabels {
		labels := slices.DeleteFunc(sortedLabels(node.Labels), func(label Label) bool { return !isGPULabel(label.Key) })
		return GPULabels{NodeName: node.Name, GPULabels: labels, BoundPools: nodePools(node)}
	})
	return &gpuLabelsOutput{Body: GPULabelsList(list)}, err
}

func (s *Server) listLabels(ctx context.Context, _ *empty) (*allLabelsOutput, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	values := map[string]map[string]bool{}
	for i := range view.Objects.Nodes {
		for key, value := range view.Objects.Nodes[i].Labels {
			if values[key] == nil {
				values[key] = map[string]bool{}
			}
			values[key][value] = true
		}
	}
	out := &allLabelsOutput{Body: make(map[string][]string, len(values))}
	for key, set := range values {
		out.Body[key] = slices.Sorted(maps.Keys(set))
	}
	return out, nil
}

package placement

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// MaxTrees is how many trees are cached: one for each level and pool that gangs use.
const MaxTrees = 16

// topologyTree is the tree of some nodes for one layout, which is valid as long as their labels are.
type topologyTree struct {
	layout string
	nodes  []*corev1.Node
	tree   *topology.Tree
	level  int
}

// TreeFor returns the topology of nodes for a layout, and the index of the layout's level. It builds a new tree if a node was added, removed, or
// moved.
func (t *CapacityTables) TreeFor(l Layout, infos []fwk.NodeInfo) (*topology.Tree, int) {
	levels, level := topology.LevelsTo(l.Level)
	if l.IsAny() {
		levels, level = nil, -1
	}
	if t == nil {
		return buildTree(levels, level, infos)
	}
	i := slices.IndexFunc(t.Trees, func(g *topologyTree) bool { return g.layout == l.Level && g.matchesNodes(levels, infos) })
	if i < 0 {
		g := &topologyTree{layout: l.Level, nodes: make([]*corev1.Node, len(infos))}
		for i, info := range infos {
			g.nodes[i] = info.Node()
		}
		g.tree, g.level = buildTree(levels, level, infos)
		t.Trees, i = append(t.Trees, g), len(t.Trees)
	}
	found := t.Trees[i]
	t.Trees = slices.Insert(slices.Delete(t.Trees, i, i+1), 0, found)
	t.Trees = t.Trees[:min(len(t.Trees), MaxTrees)]
	return found.tree, found.level
}

// matchesNodes reports whether a tree matches some nodes.
func (g *topologyTree) matchesNodes(levels []topology.Level, infos []fwk.NodeInfo) bool {
	if len(g.nodes) != len(infos) {
		return false
	}
	for i, info := range infos {
		node := info.Node()
		if g.nodes[i] == node {
			continue
		}
		if g.nodes[i].Name != node.Name || slices.ContainsFunc(levels, func(l topology.Level) bool { return g.nodes[i].Labels[l.Key] != node.Labels[l.Key] }) {
			return false
		}
		g.nodes[i] = node // makes the next check cheaper
	}
	return true
}

func buildTree(levels []topology.Level, level int, infos []fwk.NodeInfo) (*topology.Tree, int) {
	nodes := make([]topology.Node, len(infos))
	for i, info := range infos {
		nodes[i] = topology.Node{Name: info.Node().Name, Labels: info.Node().Labels}
	}
	return topology.New(levels, level, nodes)
}

package coscheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/topology"
)

// maxTrees is how many trees are remembered: one for each level and pool that gangs name.
const maxTrees = 16

// grown is the tree of some nodes for one layout, which holds as long as their labels do.
type grown struct {
	layout string
	nodes  []*corev1.Node
	tree   *topology.Tree
	level  int
}

// treeOf returns where nodes lie as far as it counts for a layout, and the number of the layout's level. It grows a tree where
// a node has come or gone, or lies elsewhere than before.
func (t *tables) treeOf(l layout, infos []fwk.NodeInfo) (*topology.Tree, int) {
	levels, level := topology.LevelsTo(l.level)
	if l.isAny() {
		levels, level = nil, -1
	}
	if t == nil {
		return grow(levels, level, infos)
	}
	i := slices.IndexFunc(t.trees, func(g *grown) bool { return g.layout == l.level && g.holds(levels, infos) })
	if i < 0 {
		g := &grown{layout: l.level, nodes: make([]*corev1.Node, len(infos))}
		for i, info := range infos {
			g.nodes[i] = info.Node()
		}
		g.tree, g.level = grow(levels, level, infos)
		t.trees, i = append(t.trees, g), len(t.trees)
	}
	found := t.trees[i]
	t.trees = slices.Insert(slices.Delete(t.trees, i, i+1), 0, found)
	t.trees = t.trees[:min(len(t.trees), maxTrees)]
	return found.tree, found.level
}

// holds reports whether a tree is that of some nodes.
func (g *grown) holds(levels []topology.Level, infos []fwk.NodeInfo) bool {
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
		g.nodes[i] = node // the next look costs less
	}
	return true
}

func grow(levels []topology.Level, level int, infos []fwk.NodeInfo) (*topology.Tree, int) {
	nodes := make([]topology.Node, len(infos))
	for i, info := range infos {
		nodes[i] = topology.Node{Name: info.Node().Name, Labels: info.Node().Labels}
	}
	return topology.New(levels, level, nodes)
}

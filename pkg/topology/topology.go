// Package topology determines the location of nodes: in a tree of domains, such as zones, racks and NVLink domains, read from the labels of
// nodes. The fabric between two nodes of one domain is faster than that between domains. It is pure, and knows neither pods nor free resources.
package topology

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Level is one kind of domain. Domains of a level lie in those of the level before.
type Level struct {
	// Name is what users call it.
	Name string
	// Key is the label that names a node's domain.
	Key string
	// prefix says that the domain is the part of the label's value before the last dot.
	prefix bool
}

// The levels that have names of their own, the widest first.
var (
	Zone = Level{Name: "zone", Key: "topology.kubernetes.io/zone"}
	Rack = Level{Name: "rack", Key: names.LabelRack}
	// NVLink is the nodes whose GPUs are connected by NVLink switches, such as the 18 of an NVL72.
	NVLink = Level{Name: "nvlink", Key: names.LabelNVIDIAClique, prefix: true}
)

// Levels lists them.
var Levels = []Level{Zone, Rack, NVLink}

// IsLevel reports whether a level has a name: one of our own, or the key of a label. A key must have a prefix, or a misspelled name would count
// as one.
func IsLevel(name string) bool {
	return slices.ContainsFunc(Levels, func(l Level) bool { return l.Name == name }) ||
		strings.Contains(name, "/") && len(validation.IsQualifiedName(name)) == 0
}

// LevelNames lists the names of the levels that have one.
func LevelNames() (all []string) {
	for _, level := range Levels {
		all = append(all, level.Name)
	}
	return all
}

// LevelsTo returns the levels of a tree for a level, given by its name or the key of a label, and its index among them. The relation of an
// arbitrary label to the named levels is unknown, so it is alone in its tree.
func LevelsTo(name string) ([]Level, int) {
	for i, level := range Levels {
		if level.Name == name || level.Key == name {
			return Levels, i
		}
	}
	return []Level{{Name: name, Key: name}}, 0
}

// DomainOf returns the domain of a level for a node with some labels, "" if they do not say.
func DomainOf(level string, labels map[string]string) string {
	levels, at := LevelsTo(level)
	return levels[at].domainName(labels)
}

// domainName returns the name of a node's domain, "" if its labels do not say.
func (l *Level) domainName(labels map[string]string) string {
	value := labels[l.Key]
	if l.prefix {
		if dot := strings.LastIndexByte(value, '.'); dot >= 0 {
			return value[:dot]
		}
	}
	return value
}

// Node is one node by its name and labels.
type Node struct {
	Name   string
	Labels map[string]string
}

// Tree is the location of a list of nodes. Nodes are identified by their numbers.
type Tree struct {
	Levels []Level
	// Root is the domain of all nodes.
	Root *Domain
	// at is the domain of a node at a level, by level and node.
	at [][]*Domain
}

// Domain is some nodes that lie together.
type Domain struct {
	// Name is what the label says, "" for the root, and for a domain that no label names.
	Name string
	// Level is that of the domain, -1 for the root.
	Level int
	// Nodes are the numbers of its nodes, in order of their names.
	Nodes []int
	// Children are the domains that lie in it, by name. Those of the last level have none.
	Children []*Domain

	key string
}

// New builds the tree of some nodes. Levels without a label on any node are left out, except the one at the index kept, whose new index it
// returns. A domain is identified by the domains that it lies in: each zone may have a rack r1. A missing label means that the location is
// unknown, and unknown is far: the node only lies with those that share the domain of the next level that its labels name, and with no other
// node if they name none.
func New(levels []Level, kept int, nodes []Node) (t *Tree, at int) {
	levels, at = namedLevels(levels, kept, nodes)
	t = &Tree{Levels: levels, Root: &Domain{Level: -1}, at: make([][]*Domain, len(levels))}
	for level := range levels {
		t.at[level] = make([]*Domain, len(nodes))
	}
	order := make([]int, len(nodes))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(nodes[a].Name, nodes[b].Name) })
	known := map[string]*Domain{}
	for _, node := range order {
		t.addNode(node, &nodes[node], known)
	}
	t.Root.sortChildren()
	return t, at
}

// namedLevels returns the levels with labels, and the kept one, with its index among them.
func namedLevels(levels []Level, kept int, nodes []Node) (some []Level, at int) {
	for i, level := range levels {
		if i == kept {
			at = len(some)
		} else if !slices.ContainsFunc(nodes, func(n Node) bool { return level.domainName(n.Labels) != "" }) {
			continue
		}
		some = append(some, level)
	}
	return some, at
}

// addNode adds a node to its domains.
func (t *Tree) addNode(number int, node *Node, known map[string]*Domain) {
	parent, path := t.Root, ""
	parent.Nodes = append(parent.Nodes, number)
	for level := range t.Levels {
		name, key := t.keyOf(level, node)
		path += "/" + key
		domain := known[path]
		if domain == nil {
			domain = &Domain{Name: name, Level: level, key: key}
			known[path] = domain
			parent.Children = append(parent.Children, domain)
		}
		domain.Nodes = append(domain.Nodes, number)
		t.at[level][number] = domain
		parent = domain
	}
}

// keyOf returns the name of a node's domain of a level, and a key that distinguishes it within its parent. No label value contains what follows
// an exclamation mark.
func (t *Tree) keyOf(level int, node *Node) (name, key string) {
	if name := t.Levels[level].domainName(node.Labels); name != "" {
		return name, name
	}
	for below := level + 1; below < len(t.Levels); below++ {
		if name := t.Levels[below].domainName(node.Labels); name != "" {
			return "", "!" + t.Levels[below].Key + "/" + name
		}
	}
	return "", "!!" + node.Name
}

func (d *Domain) sortChildren() {
	slices.SortFunc(d.Children, func(a, b *Domain) int { return cmp.Compare(a.key, b.key) })
	for _, child := range d.Children {
		child.sortChildren()
	}
}

// NodeDomain returns the domain of a node at a level.
func (t *Tree) NodeDomain(node, level int) *Domain { return t.at[level][node] }

// DomainsAt returns the domains of a level that labels name, in order.
func (t *Tree) DomainsAt(level int) []*Domain {
	var domains []*Domain
	t.Root.visitDomains(func(d *Domain) {
		if d.Level == level && d.Name != "" {
			domains = append(domains, d)
		}
	})
	return domains
}

func (d *Domain) visitDomains(visit func(*Domain)) {
	visit(d)
	for _, child := range d.Children {
		child.visitDomains(visit)
	}
}

// LevelsCrossed returns how many levels lie between two nodes: 0 for a node and itself, 1 for two of the same innermost domain, and one more for each
// level at which their domains differ.
func (t *Tree) LevelsCrossed(a, b int) int {
	if a == b {
		return 0
	}
	crossed := 1
	for level := range t.Levels {
		if t.at[level][a] != t.at[level][b] {
			crossed++
		}
	}
	return crossed
}

// CommonDomain returns the innermost domain that holds all of some nodes.
func (t *Tree) CommonDomain(nodes []int) *Domain {
	common := t.Root
	for level := range t.Levels {
		if len(nodes) == 0 {
			return common
		}
		domain := t.at[level][nodes[0]]
		for _, node := range nodes[1:] {
			if t.at[level][node] != domain {
				return common
			}
		}
		common = domain
	}
	return common
}

// InOrder iterates over the nodes so that those of a domain are adjacent.
func (t *Tree) InOrder() iter.Seq[int] {
	return func(yield func(int) bool) { t.Root.visitNodes(yield) }
}

func (d *Domain) visitNodes(yield func(int) bool) bool {
	if len(d.Children) > 0 {
		return !slices.ContainsFunc(d.Children, func(child *Domain) bool { return !child.visitNodes(yield) })
	}
	return !slices.ContainsFunc(d.Nodes, func(node int) bool { return !yield(node) })
}

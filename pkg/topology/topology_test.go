package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// node has the labels of its rack, zone and clique, as "n1 rack=r1 zone=a".
func node(text string) Node {
	words := strings.Fields(text)
	n := Node{Name: words[0], Labels: map[string]string{}}
	for _, word := range words[1:] {
		level, value, _ := strings.Cut(word, "=")
		levels, i := LevelsTo(level)
		n.Labels[levels[i].Key] = value
	}
	return n
}

func TestTheTreeOfDomains(t *testing.T) {
	tests := map[string]struct {
		nodes []string
		// level is kept whatever the labels.
		level string
		want  string
	}{
		"racks in zones": {nodes: []string{"c zone=b rack=r1", "a zone=a rack=r1", "b zone=a rack=r2"},
			want: "[a[r1(a) r2(b)] b[r1(c)]]"},
		"levels that nothing names are left out":             {nodes: []string{"a rack=r1", "b rack=r2"}, want: "[r1(a) r2(b)]"},
		"no labels at all":                                   {nodes: []string{"b", "a"}, want: "(a b)"},
		"a level that is asked for, though nothing names it": {nodes: []string{"b", "a"}, level: "rack", want: "[?(a) ?(b)]"},
		"an NVLink domain is what comes before the dot": {nodes: []string{"a nvlink=u1.1", "b nvlink=u1.2", "c nvlink=u2.1"},
			want: "[u1(a b) u2(c)]"},
		"a rack whose zone is not known lies in none of those that are": {nodes: []string{"a zone=a rack=r1", "b rack=r1", "c rack=r1", "d"},
			want: "[?[?(d)] ?[r1(b c)] a[r1(a)]]"},
		"a label of the user's": {nodes: []string{"a example.com/row=1", "b example.com/row=2", "c rack=r1"}, level: "example.com/row",
			want: "[?(c) 1(a) 2(b)]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var nodes []Node
			for _, text := range tc.nodes {
				nodes = append(nodes, node(text))
			}
			levels, kept := Levels, -1
			if tc.level != "" {
				levels, kept = LevelsTo(tc.level)
			}
			tree, at := New(levels, kept, nodes)
			if got := tree.Root.text(nodes); got != tc.want {
				t.Errorf("the tree is %s, want %s", got, tc.want)
			}
			if tc.level != "" && tree.Levels[at] != levels[kept] {
				t.Errorf("level %d is %v, want %s", at, tree.Levels[at], tc.level)
			}
			for _, d := range tree.DomainsAt(len(tree.Levels) - 1) {
				if d.Name == "" {
					t.Error("a domain that no label names can be required")
				}
			}
		})
	}
}

func (d *Domain) text(nodes []Node) string {
	name := d.Name
	if name == "" && d.Level >= 0 {
		name = "?"
	}
	if len(d.Children) == 0 {
		var of []string
		for _, number := range d.Nodes {
			of = append(of, nodes[number].Name)
		}
		return name + "(" + strings.Join(of, " ") + ")"
	}
	var children []string
	for _, child := range d.Children {
		children = append(children, child.text(nodes))
	}
	return name + "[" + strings.Join(children, " ") + "]"
}

func TestHowFarNodesAre(t *testing.T) {
	nodes := []Node{node("a zone=a rack=r1"), node("b zone=a rack=r1"), node("c zone=a rack=r2"), node("d zone=b rack=r1")}
	tree, _ := New(Levels, -1, nodes)
	if got, want := fmt.Sprint(tree.LevelsCrossed(0, 0), tree.LevelsCrossed(0, 1), tree.LevelsCrossed(0, 2), tree.LevelsCrossed(0, 3)), "0 1 2 3"; got != want {
		t.Errorf("levels between a and the others: %s, want %s", got, want)
	}
	if got, want := fmt.Sprintln(tree.CommonDomain([]int{0, 1}).Name, tree.CommonDomain([]int{0, 2}).Name, tree.CommonDomain([]int{0, 3}).Level), "r1 a -1\n"; got != want {
		t.Errorf("what holds a and the others: %s, want %s", got, want)
	}
	if got := slices.Collect(tree.InOrder()); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("in order: %v", got)
	}
	for range tree.InOrder() {
		break
	}
}

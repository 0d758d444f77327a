package workload

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Limits of what a document may unfold to. A real document has some hundred nodes and a depth of ten; a few
// hundred bytes of anchors and aliases can unfold to billions ("YAML bomb").
const (
	maxNodes = 20_000
	maxDepth = 40
)

// flattener replaces aliases by what they stand for, within the limits.
type flattener struct {
	source *source
	nodes  int
}

// flatten returns whether node, with its aliases replaced, stays within the limits; it reports why not.
func (f *flattener) flatten(node *yaml.Node, depth int) bool {
	f.nodes++
	switch {
	case f.nodes > maxNodes:
		return f.refuse(node, fmt.Sprintf("the document has more than %d values, with its aliases unfolded", maxNodes))
	case depth > maxDepth:
		return f.refuse(node, fmt.Sprintf("the document is nested deeper than %d levels", maxDepth))
	case node.Style&yaml.TaggedStyle != 0:
		return f.refuse(node, fmt.Sprintf("YAML tags such as %s are not supported", clip(node.Tag)))
	}
	for i, child := range node.Content {
		if child.Kind == yaml.AliasNode {
			child = child.Alias
			node.Content[i] = child
		}
		if !f.flatten(child, depth+1) {
			return false
		}
	}
	return true
}

func (f *flattener) refuse(at *yaml.Node, message string) bool {
	f.source.report(SeverityError, at.Line, at.Column, message)
	return false
}

package jobplan

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// resolveAlias replaces an alias by a copy of its value, so that changing it changes nothing else.
func resolveAlias(node *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		*node = *copyExpanded(node)
	}
}

// copyExpanded returns a copy of a node with all aliases expanded, and without anchors.
func copyExpanded(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return copyExpanded(node.Alias)
	}
	out := *node
	out.Anchor, out.Content = "", make([]*yaml.Node, len(node.Content))
	for i, below := range node.Content {
		out.Content[i] = copyExpanded(below)
	}
	return &out
}

// aliases maps each alias of a document to a copy of its value. Aliases of one anchor share a copy.
type aliases map[*yaml.Node]*yaml.Node

func collectAliases(root *yaml.Node) aliases {
	out, copies := aliases{}, map[*yaml.Node]*yaml.Node{}
	walkNodes(root, func(node *yaml.Node) {
		if node.Kind != yaml.AliasNode {
			return
		}
		if copies[node.Alias] == nil {
			copies[node.Alias] = copyExpanded(node.Alias)
			copies[node.Alias].Anchor = node.Value
			clearPosition(copies[node.Alias])
		}
		out[node] = copies[node.Alias]
	})
	return out
}

// restoreAnchors restores the values of aliases in a changed document: if the anchored node is gone or has changed, the first alias becomes the
// anchored node, and the others refer to it.
func (a aliases) restoreAnchors(root *yaml.Node) {
	anchored, moved := map[*yaml.Node]bool{}, map[*yaml.Node]*yaml.Node{}
	walkNodes(root, func(node *yaml.Node) {
		if node.Anchor != "" {
			anchored[node] = true
		}
		if node.Kind != yaml.AliasNode || anchored[node.Alias] {
			return
		}
		stood := a[node]
		if stood == nil {
			return // it was added together with its anchor
		}
		if at := moved[stood]; at != nil {
			node.Alias = at
			return
		}
		head, line, foot := node.HeadComment, node.LineComment, node.FootComment
		*node = *stood
		node.HeadComment, node.LineComment, node.FootComment = head, line, foot
		moved[stood], anchored[node] = node, true
	})
}

// walkNodes visits the nodes of a document in document order.
func walkNodes(node *yaml.Node, visit func(*yaml.Node)) {
	visit(node)
	for _, below := range node.Content {
		walkNodes(below, visit)
	}
}

// dropEntries removes entries from a mapping, with the comments on their lines. Comments above and below them stay, as they may concern more than the
// one entry.
func dropEntries(mapping *yaml.Node, goes func(key string, value *yaml.Node) bool) {
	var kept []*yaml.Node
	var left []string
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		if goes(key.Value, value) {
			left = append(left, key.HeadComment, key.FootComment)
			continue
		}
		key.HeadComment, left = joinComments(append(left, key.HeadComment)...), nil
		kept = append(kept, key, value)
	}
	if last := len(kept) - 2; last >= 0 {
		kept[last].FootComment = joinComments(append([]string{kept[last].FootComment}, left...)...)
	} else {
		mapping.HeadComment = joinComments(append([]string{mapping.HeadComment}, left...)...)
	}
	mapping.Content = kept
}

// joinComments joins comments.
func joinComments(comments ...string) string {
	var out []string
	for _, comment := range comments {
		if comment != "" {
			out = append(out, comment)
		}
	}
	return strings.Join(out, "\n\n")
}

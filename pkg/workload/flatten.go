package workload

import (
	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
)

// Unfolded limits what a document may unfold to. A real document has some hundred values and a depth of ten; a few hundred bytes of anchors and
// aliases can unfold to billions ("YAML bomb"). An unfolded document may be as large as one without aliases.
var Unfolded = safeyaml.Limits{Bytes: MaxDocumentSize, Values: 20_000, Depth: 40}

// flatten replaces the aliases below root by their anchors' values. It returns false after reporting why it cannot.
func flatten(src *source, root *yaml.Node) bool {
	limits := Unfolded
	limits.NoAliases = src.noAliases
	if problem := safeyaml.Unfold(root, limits); problem != nil {
		src.report(SeverityError, problem.Line, problem.Column, tooMuch(problem, limits))
		return false
	}
	if tagged := findTagged(root); tagged != nil {
		src.report(SeverityError, tagged.Line, tagged.Column, phrase.Of("YAML tags such as %s are not supported", clip(tagged.Tag)))
		return false
	}
	return true
}

// tooMuch translates a problem of package safeyaml, which reports in English only.
func tooMuch(problem *safeyaml.Problem, limits safeyaml.Limits) phrase.Text {
	switch problem.Broken {
	case safeyaml.TooManyValues:
		return phrase.Of("the document has more than %d values, with its aliases unfolded", limits.Values)
	case safeyaml.TooManyBytes:
		return phrase.Of("the document has more than %d bytes, with its aliases unfolded", limits.Bytes)
	case safeyaml.TooDeep:
		return phrase.Of("the document is nested deeper than %d levels", limits.Depth)
	case safeyaml.AnAlias:
		return phrase.Of("the alias *%s is not accepted here: write out what it stands for", problem.Alias)
	}
	return phrase.Quote(problem.Message)
}

// findTagged returns the first node with a tag. The tree must be known to be small.
func findTagged(node *yaml.Node) *yaml.Node {
	if node.Style&yaml.TaggedStyle != 0 {
		return node
	}
	for _, child := range node.Content {
		if tagged := findTagged(child); tagged != nil {
			return tagged
		}
	}
	return nil
}

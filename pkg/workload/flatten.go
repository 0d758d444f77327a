package workload

import (
	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/safeyaml"
)

// UnfoldLimits limits what a document may unfold to. A real document has some hundred values and a depth of ten; a few hundred bytes of anchors and
// aliases can unfold to billions ("YAML bomb"). An unfolded document may be as large as one without aliases.
var UnfoldLimits = safeyaml.Limits{Bytes: MaxDocumentSize, Values: 20_000, Depth: 40}

// unfoldAliases replaces the aliases below root by their anchors' values. It returns false after reporting why it cannot.
func unfoldAliases(src *source, root *yaml.Node) bool {
	limits := UnfoldLimits
	limits.NoAliases = src.noAliases
	if problem := safeyaml.Unfold(root, limits); problem != nil {
		src.addDiagnostic(SeverityError, problem.Line, problem.Column, limitMessage(problem, limits))
		return false
	}
	if tagged := findTagged(root); tagged != nil {
		src.addDiagnostic(SeverityError, tagged.Line, tagged.Column, phrase.Textf("YAML tags such as %s are not supported", truncateText(tagged.Tag)))
		return false
	}
	return true
}

// limitMessage translates a problem of package safeyaml, which reports in English only.
func limitMessage(problem *safeyaml.Problem, limits safeyaml.Limits) phrase.Text {
	switch problem.Broken {
	case safeyaml.TooManyValues:
		return phrase.Textf("the document has more than %d values, with its aliases unfolded", limits.Values)
	case safeyaml.TooManyBytes:
		return phrase.Textf("the document has more than %d bytes, with its aliases unfolded", limits.Bytes)
	case safeyaml.TooDeep:
		return phrase.Textf("the document is nested deeper than %d levels", limits.Depth)
	case safeyaml.AliasRefused:
		return phrase.Textf("the alias *%s is not accepted here: write out what it stands for", problem.Alias)
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

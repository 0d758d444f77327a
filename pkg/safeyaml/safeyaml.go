// Package safeyaml reads untrusted YAML. A few kilobytes of YAML can stand for gigabytes: an alias is another copy of its anchor, and decoders create
// each copy. So this package counts, in bytes and in values, what a text unfolds to before anything is unfolded. It refuses a text that is too large,
// with the position where the limit is exceeded.
package safeyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// Limits limit what a text may unfold to. A zero field sets no limit.
type Limits struct {
	// Bytes is the total size of all keys and values, including each copy by an alias.
	Bytes int
	// Values is the number of keys, values, lists and sections, counted in the same way.
	Values int
	// Depth is the maximum nesting depth.
	Depth int
	// NoAliases refuses every alias.
	NoAliases bool
}

// BrokenLimit is the limit that a text exceeds.
type BrokenLimit int

// The limits.
const (
	TooManyValues BrokenLimit = iota
	TooManyBytes
	TooDeep
	AliasRefused
)

// Problem is why and where a text is refused. Line and column count from 1.
type Problem struct {
	Line, Column int
	// Broken is the exceeded limit, for callers with their own messages, and Alias the name of a refused alias.
	Broken  BrokenLimit
	Alias   string
	Message string
}

func (p *Problem) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// Unfold replaces each alias below a node by its anchor, which is not copied, and returns the first exceeded limit; nil if there is none.
func Unfold(root *yaml.Node, limits Limits) *Problem {
	counted := &unfolder{limits: limits.zeroAsUnlimited()}
	return counted.unfoldNode(root, 0)
}

func (l Limits) zeroAsUnlimited() Limits {
	for _, limit := range []*int{&l.Bytes, &l.Values, &l.Depth} {
		if *limit == 0 {
			*limit = math.MaxInt
		}
	}
	return l
}

type unfolder struct {
	limits        Limits
	bytes, values int
}

func (u *unfolder) unfoldNode(node *yaml.Node, depth int) *Problem {
	u.values++
	u.bytes += len(node.Value)
	switch {
	case u.values > u.limits.Values:
		return newProblem(node, TooManyValues, "the document has more than %d values, with its aliases unfolded", u.limits.Values)
	case u.bytes > u.limits.Bytes:
		return newProblem(node, TooManyBytes, "the document has more than %d bytes, with its aliases unfolded", u.limits.Bytes)
	case depth > u.limits.Depth:
		return newProblem(node, TooDeep, "the document is nested deeper than %d levels", u.limits.Depth)
	}
	for i, child := range node.Content {
		if child.Kind == yaml.AliasNode {
			if u.limits.NoAliases {
				problem := newProblem(child, AliasRefused, "the alias *%s is not accepted here: write out what it stands for", truncateName(child.Value))
				problem.Alias = truncateName(child.Value)
				return problem
			}
			child = child.Alias
			node.Content[i] = child
		}
		if problem := u.unfoldNode(child, depth+1); problem != nil {
			return problem
		}
	}
	return nil
}

func newProblem(node *yaml.Node, broken BrokenLimit, format string, args ...any) *Problem {
	return &Problem{Line: max(node.Line, 1), Column: max(node.Column, 1), Broken: broken, Message: fmt.Sprintf(format, args...)}
}

// truncateName truncates the name of an anchor, which may be as long as the text, for a message.
func truncateName(name string) string {
	const most = 40
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return name
}

// Configuration suffices for every configuration file that a person writes.
var Configuration = Limits{Bytes: 1 << 20, Values: 50_000, Depth: 40}

// Check returns a [Problem] if the first document of a text exceeds the limits, and another error if it is not YAML.
func Check(text []byte, limits Limits) error {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return err //nolint:wrapcheck // the error contains the line, and callers name the text
	}
	if problem := Unfold(&root, limits); problem != nil {
		return problem
	}
	return nil
}

// CheckAliases returns a [Problem] if aliases make any document of a text exceed the limits. A text without aliases, however large, is accepted
// without parsing.
func CheckAliases(text []byte, limits Limits) error {
	if bytes.IndexByte(text, '*') < 0 { // every alias begins with it
		return nil
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var root yaml.Node
		switch err := documents.Decode(&root); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err //nolint:wrapcheck // the error contains the line, and callers name the text
		}
		if problem := Unfold(&root, limits); problem != nil {
			return problem
		}
	}
}

// Unmarshal decodes a text within limits as sigs.k8s.io/yaml does, by the JSON names of fields.
func Unmarshal(text []byte, into any, limits Limits) error {
	return checkAndDecode(text, into, limits, kyaml.Unmarshal)
}

// UnmarshalStrict is [Unmarshal], and refuses unknown and duplicate keys.
func UnmarshalStrict(text []byte, into any, limits Limits) error {
	return checkAndDecode(text, into, limits, kyaml.UnmarshalStrict)
}

func checkAndDecode(text []byte, into any, limits Limits, decode func([]byte, any, ...kyaml.JSONOpt) error) error {
	if err := Check(text, limits); err != nil {
		return err
	}
	return decode(text, into) //nolint:wrapcheck // callers name the text
}

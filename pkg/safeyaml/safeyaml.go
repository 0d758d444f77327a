// Package safeyaml reads YAML that others wrote. A few kilobytes of YAML can stand for gigabytes: an alias is one more
// copy of what it names, and those who decode it make each copy. So what a text unfolds to is counted before anything
// is unfolded, in bytes and in values, and a text that is too large is refused with the place where it becomes so.
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

// Limits are what a text may unfold to. A field that is 0 sets no limit.
type Limits struct {
	// Bytes is the size of all keys and values together, each copy that an alias makes counted.
	Bytes int
	// Values is the number of keys, values, lists and sections, counted in the same way.
	Values int
	// Depth is how deep they may be in each other.
	Depth int
	// NoAliases refuses every alias.
	NoAliases bool
}

// Broken is which limit a text breaks.
type Broken int

// The limits.
const (
	TooManyValues Broken = iota
	TooManyBytes
	TooDeep
	AnAlias
)

// Problem is why a text is refused, and where. Line and column count from 1.
type Problem struct {
	Line, Column int
	// Broken is which limit it is, for who says it in words of their own, and Alias the name of an alias that is refused.
	Broken  Broken
	Alias   string
	Message string
}

func (p *Problem) Error() string {
	return fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
}

// Unfold replaces each alias below a node by the node that it names, of which there is still only one, and returns
// what breaks the limits first; nil if nothing does.
func Unfold(root *yaml.Node, limits Limits) *Problem {
	counted := &unfolder{limits: limits.orNone()}
	return counted.unfold(root, 0)
}

func (l Limits) orNone() Limits {
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

func (u *unfolder) unfold(node *yaml.Node, depth int) *Problem {
	u.values++
	u.bytes += len(node.Value)
	switch {
	case u.values > u.limits.Values:
		return at(node, TooManyValues, "the document has more than %d values, with its aliases unfolded", u.limits.Values)
	case u.bytes > u.limits.Bytes:
		return at(node, TooManyBytes, "the document has more than %d bytes, with its aliases unfolded", u.limits.Bytes)
	case depth > u.limits.Depth:
		return at(node, TooDeep, "the document is nested deeper than %d levels", u.limits.Depth)
	}
	for i, child := range node.Content {
		if child.Kind == yaml.AliasNode {
			if u.limits.NoAliases {
				problem := at(child, AnAlias, "the alias *%s is not accepted here: write out what it stands for", clip(child.Value))
				problem.Alias = clip(child.Value)
				return problem
			}
			child = child.Alias
			node.Content[i] = child
		}
		if problem := u.unfold(child, depth+1); problem != nil {
			return problem
		}
	}
	return nil
}

func at(node *yaml.Node, broken Broken, format string, args ...any) *Problem {
	return &Problem{Line: max(node.Line, 1), Column: max(node.Column, 1), Broken: broken, Message: fmt.Sprintf(format, args...)}
}

// clip keeps the name of an anchor, which may be as long as the text, from filling a message.
func clip(name string) string {
	const most = 40
	if runes := []rune(name); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return name
}

// Configuration is enough for every file that a person writes to configure a program.
var Configuration = Limits{Bytes: 1 << 20, Values: 50_000, Depth: 40}

// Check returns a [Problem] if the first document of a text breaks the limits, and another error if it is no YAML.
func Check(text []byte, limits Limits) error {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return err //nolint:wrapcheck // it names the line, and callers say whose text it is
	}
	if problem := Unfold(&root, limits); problem != nil {
		return problem
	}
	return nil
}

// CheckAliases returns a [Problem] if aliases make any document of a text unfold beyond the limits. A text without
// aliases, however large, passes unread: it is what it is.
func CheckAliases(text []byte, limits Limits) error {
	if bytes.IndexByte(text, '*') < 0 { // nothing else begins an alias
		return nil
	}
	documents := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var root yaml.Node
		switch err := documents.Decode(&root); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err //nolint:wrapcheck // it names the line, and callers say whose text it is
		}
		if problem := Unfold(&root, limits); problem != nil {
			return problem
		}
	}
}

// Unmarshal reads a text within limits as sigs.k8s.io/yaml does, by the JSON names of fields.
func Unmarshal(text []byte, into any, limits Limits) error {
	return unmarshal(text, into, limits, kyaml.Unmarshal)
}

// UnmarshalStrict is [Unmarshal], and refuses keys that are unknown or given twice.
func UnmarshalStrict(text []byte, into any, limits Limits) error {
	return unmarshal(text, into, limits, kyaml.UnmarshalStrict)
}

func unmarshal(text []byte, into any, limits Limits, decode func([]byte, any, ...kyaml.JSONOpt) error) error {
	if err := Check(text, limits); err != nil {
		return err
	}
	return decode(text, into) //nolint:wrapcheck // callers say whose text it is
}

// Package phrase is what our programs say to people, before it is in any language: a format and its values. The format is
// in English, as the code that says it spells it, and is the key in the catalogues of other languages, so that a sentence
// has one home and a changed one is missed by the test of this package. What programs read is never translated.
package phrase

import (
	"fmt"
	"strings"
)

// Text is what is said, part after part. The zero value says nothing.
type Text []part

// part is a format of package fmt, and its values; a value that is a Text itself is put into words with it.
type part struct {
	format string
	args   []any
}

// Of says a format with its values. They are read now: what changes later is not told.
func Of(format string, args ...any) Text { return Template(format, args) }

// Template is Of for a format that is found in a catalogue, such as that of package reason.
func Template(format string, args []any) Text {
	kept := make([]any, len(args))
	for i, arg := range args {
		switch value := arg.(type) {
		case Text:
			kept[i] = value
		case error:
			kept[i] = OfError(value)
		case fmt.Stringer:
			kept[i] = value.String()
		default:
			kept[i] = value
		}
	}
	return Text{{format: format, args: kept}}
}

// Quote says what others have written, which is in their language.
func Quote(text string) Text {
	if text == "" {
		return nil
	}
	return Of("%s", text)
}

// And goes on with another format. The text itself stays as it is.
func (t Text) And(format string, args ...any) Text { return t.With(Of(format, args...)) }

// With goes on with another text.
func (t Text) With(more Text) Text { return append(t[:len(t):len(t)], more...) }

// Join says several texts, with a word between two of them that a catalogue knows.
func Join(texts []Text, between Text) Text {
	var out Text
	for i, text := range texts {
		if i > 0 {
			out = out.With(between)
		}
		out = out.With(text)
	}
	return out
}

// Replacing is the text with other words in what it quotes, such as an address that says nothing to people.
func (t Text) Replacing(old, words string) Text {
	out := make(Text, len(t))
	for i, p := range t {
		out[i] = part{format: p.format, args: make([]any, len(p.args))}
		for j, arg := range p.args {
			switch value := arg.(type) {
			case Text:
				arg = value.Replacing(old, words)
			case string:
				arg = strings.ReplaceAll(value, old, words)
			}
			out[i].args[j] = arg
		}
	}
	return out
}

// String says it in English.
func (t Text) String() string { return t.In(English) }

// In says it in a language; what that has no words for, in English.
func (t Text) In(language Language) string {
	var out strings.Builder
	for _, part := range t {
		format := strings.ReplaceAll(language.Words(part.format), "%w", "%s") // which only fmt.Errorf knows
		args := make([]any, len(part.args))
		for i, arg := range part.args {
			args[i] = arg
			if text, ok := arg.(Text); ok {
				args[i] = text.In(language)
			}
		}
		fmt.Fprintf(&out, format, args...)
	}
	return out.String()
}

// Part is a part of a text for programs, which may have words of their own for its template. Cause, code and the like
// are what to decide by: templates change as sentences do.
type Part struct {
	// Template is the sentence in English, with verbs of Go's package fmt in place of its values.
	Template string `json:"template" doc:"The sentence in English, with verbs of Go's fmt (%s, %d, %q, %[1]s) in place of its values"`
	// Params are the values, in the order of the verbs.
	Params []string `json:"params,omitempty" doc:"The values, in the order of the verbs"`
}

// Parts are the parts of a text, for programs.
func (t Text) Parts() []Part {
	out := make([]Part, len(t))
	for i, part := range t {
		out[i].Template = part.format
		for _, arg := range part.args {
			out[i].Params = append(out[i].Params, fmt.Sprint(arg))
		}
	}
	return out
}

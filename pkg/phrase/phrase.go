// Package phrase is what our programs say to people, before it is in any language: a format and its values. The format is
// in English, as the code that says it spells it, and is the key in the catalogues of other languages, so that a sentence
// has one home and a changed one is missed by the test of this package. What programs read is never translated.
package phrase

import (
	"encoding/json"
	"fmt"
	"regexp"
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

// written is a text of ours that was written down in English.
type written string

// Written says what a program of ours has written down in English, such as the message of a condition: in another language, if it
// is found to be a sentence of a catalogue.
func Written(text string) Text {
	if text == "" {
		return nil
	}
	return Of("%s", written(text))
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

// wraps are the verbs that only fmt.Errorf knows.
var wraps = regexp.MustCompile(`%(\[\d+\])?w`)

// String says it in English.
func (t Text) String() string { return t.In(English) }

// Equal reports whether two texts say the same.
func (t Text) Equal(other Text) bool { return t.String() == other.String() }

// MarshalJSON is the text for programs, which read the same in every language.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON reads such a text, which is said in the words in which it was written.
func (t *Text) UnmarshalJSON(data []byte) error {
	var words string
	if err := json.Unmarshal(data, &words); err != nil {
		return err
	}
	*t = Quote(words)
	return nil
}

// In says it in a language; what that has no words for, in English.
func (t Text) In(language Language) string {
	var out strings.Builder
	for _, part := range t {
		format := wraps.ReplaceAllString(language.Words(part.format), "%${1}s")
		args := make([]any, len(part.args))
		for i, arg := range part.args {
			args[i] = arg
			switch value := arg.(type) {
			case Text:
				args[i] = value.In(language)
			case written:
				args[i] = language.Message(string(value))
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

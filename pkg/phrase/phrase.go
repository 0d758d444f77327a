// Package phrase represents messages for people before they are translated: a format and its values. The format is in English, as in the code, and is
// the key in the catalogues of other languages, so that a sentence is defined in one place and the test of this package detects a changed one. Output
// for programs is never translated.
package phrase

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// Text is a message of one or more parts. The zero value is empty.
type Text []part

// part is a format of package fmt with its values; a value that is a Text is translated as well.
type part struct {
	format string
	args   []any
}

// Textf returns a Text from a format with its values. Values are evaluated immediately: later changes have no effect.
func Textf(format string, args ...any) Text { return FromTemplate(format, args) }

// FromTemplate is Textf for a format from a catalogue, such as that of package reason.
func FromTemplate(format string, args []any) Text {
	kept := make([]any, len(args))
	for i, arg := range args {
		switch value := arg.(type) {
		case Text:
			kept[i] = value
		case error:
			kept[i] = FromError(value)
		case fmt.Stringer:
			kept[i] = value.String()
		default:
			kept[i] = value
		}
	}
	return Text{{format: format, args: kept}}
}

// Quote returns a Text with text written by others, in its own language.
func Quote(text string) Text {
	if text == "" {
		return nil
	}
	return Textf("%s", text)
}

// englishText is a stored English text of ours.
type englishText string

// FromEnglish returns a Text for text that one of our programs has stored in English, such as the message of a condition. It is translated if it
// matches a sentence of a catalogue.
func FromEnglish(text string) Text {
	if text == "" {
		return nil
	}
	return Textf("%s", englishText(text))
}

// Addf appends a format. The receiver is not modified.
func (t Text) Addf(format string, args ...any) Text { return t.Add(Textf(format, args...)) }

// Add appends another text.
func (t Text) Add(more Text) Text { return append(t[:len(t):len(t)], more...) }

// Join joins texts with a translatable separator.
func Join(texts []Text, between Text) Text {
	var out Text
	for i, text := range texts {
		if i > 0 {
			out = out.Add(between)
		}
		out = out.Add(text)
	}
	return out
}

// ReplaceQuoted replaces words in what the text quotes, such as an address that means nothing to people.
func (t Text) ReplaceQuoted(old, words string) Text {
	out := make(Text, len(t))
	for i, p := range t {
		out[i] = part{format: p.format, args: make([]any, len(p.args))}
		for j, arg := range p.args {
			switch value := arg.(type) {
			case Text:
				arg = value.ReplaceQuoted(old, words)
			case string:
				arg = strings.ReplaceAll(value, old, words)
			}
			out[i].args[j] = arg
		}
	}
	return out
}

// errorVerb matches the verbs that only fmt.Errorf supports.
var errorVerb = regexp.MustCompile(`%(\[\d+\])?w`)

// String returns the text in English.
func (t Text) String() string { return t.Localize(English) }

// Equal reports whether two texts are equal.
func (t Text) Equal(other Text) bool { return t.String() == other.String() }

// MarshalJSON encodes the text for programs, which get the same text in every language.
func (t Text) MarshalJSON() ([]byte, error) { return json.Marshal(t.String()) }

// UnmarshalJSON decodes such a text, which cannot be translated again.
func (t *Text) UnmarshalJSON(data []byte) error {
	var words string
	if err := json.Unmarshal(data, &words); err != nil {
		return err
	}
	*t = Quote(words)
	return nil
}

// Localize returns the text in a language; parts without a translation are in English.
func (t Text) Localize(language Language) string {
	var out strings.Builder
	for _, part := range t {
		format := errorVerb.ReplaceAllString(language.Translate(part.format), "%${1}s")
		args := make([]any, len(part.args))
		for i, arg := range part.args {
			args[i] = arg
			switch value := arg.(type) {
			case Text:
				args[i] = value.Localize(language)
			case englishText:
				args[i] = language.TranslateMessage(string(value))
			}
		}
		fmt.Fprintf(&out, format, args...)
	}
	return out.String()
}

// Part is a part of a text for programs, which may use their own words for its template. Programs should decide by cause, code and the like:
// templates change like sentences.
type Part struct {
	// Template is the English sentence, with verbs of Go's package fmt in place of its values.
	Template string `json:"template" doc:"The sentence in English, with verbs of Go's fmt (%s, %d, %q, %[1]s) in place of its values"`
	// Params are the values, in the order of the verbs.
	Params []string `json:"params,omitempty" doc:"The values, in the order of the verbs"`
}

// TemplateParts returns the parts of a text, for programs.
func (t Text) TemplateParts() []Part {
	out := make([]Part, len(t))
	for i, part := range t {
		out[i].Template = part.format
		for _, arg := range part.args {
			out[i].Params = append(out[i].Params, fmt.Sprint(arg))
		}
	}
	return out
}

package workload

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Severity says whether a problem makes the document unusable.
type Severity string

// Severities of diagnostics.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Diagnostic is one problem of a file.
type Diagnostic struct {
	File string `json:"file"`
	// Line counts from 1; 0 means the whole file.
	Line int `json:"line"`
	// Column counts characters from 1; 0 means the whole line.
	Column   int      `json:"column"`
	Severity Severity `json:"severity"`
	Message  string   `json:"message"`
	// Text is the message in every language.
	Text phrase.Text `json:"-"`
	// Source is the text of the line without its line break.
	Source string `json:"source,omitempty"`
}

// excerptWidth is the number of characters of a source line that a diagnostic shows.
const excerptWidth = 120

// String renders the diagnostic as "file:line:column: message", the source line and a caret below it.
func (d Diagnostic) String() string { return d.Localize(phrase.English) }

// Localize is String in a language.
func (d Diagnostic) Localize(language phrase.Language) string {
	var b strings.Builder
	b.WriteString(d.File)
	if d.Line > 0 {
		fmt.Fprintf(&b, ":%d", d.Line)
	}
	if d.Line > 0 && d.Column > 0 {
		fmt.Fprintf(&b, ":%d", d.Column)
	}
	b.WriteString(": ")
	if d.Severity == SeverityWarning {
		b.WriteString(phrase.Textf("warning: ").Localize(language))
	}
	b.WriteString(d.Text.Localize(language))
	if d.Source != "" && d.Column > 0 {
		excerpt, caret := d.sourceExcerpt()
		fmt.Fprintf(&b, "\n  %s\n  %s^", excerpt, caret)
	}
	return b.String()
}

// sourceExcerpt returns the part of the source line around the column, and the blanks that put a caret under it.
func (d Diagnostic) sourceExcerpt() (line, blanks string) {
	runes := []rune(replaceUnprintable(d.Source))
	at := min(d.Column-1, len(runes))
	start := max(0, at-excerptWidth/2)
	if len(runes) <= excerptWidth {
		start = 0
	}
	end := min(len(runes), start+excerptWidth)
	return string(runes[start:end]), strings.Map(blankRune, string(runes[start:at]))
}

// replaceUnprintable replaces characters that would disturb a terminal, one by one.
func replaceUnprintable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

// blankRune returns a space as wide on a terminal as r.
func blankRune(r rune) rune {
	const ideographicSpace = '\u3000'
	switch {
	case r == '\t':
		return r
	case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul),
		'\u3000' <= r && r <= '\u303f', '\uff01' <= r && r <= '\uff60':
		return ideographicSpace
	default:
		return ' '
	}
}

// Diagnostics are the problems of a file, ordered by position.
type Diagnostics []Diagnostic

// HasErrors reports whether any of the problems is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == SeverityError })
}

// String renders the diagnostics below each other.
func (ds Diagnostics) String() string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return strings.Join(lines, "\n")
}

// maxDiagnostics bounds the reported problems of one file: people do not read more, and a hostile file can have a million.
const maxDiagnostics = 50

// sortAndLimit returns the diagnostics ordered by position, truncated to maxDiagnostics.
func (ds Diagnostics) sortAndLimit() Diagnostics {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	if len(ds) <= maxDiagnostics {
		return ds
	}
	hidden := len(ds) - maxDiagnostics
	severity := SeverityWarning
	if ds[maxDiagnostics:].HasErrors() {
		severity = SeverityError
	}
	says := phrase.Textf("%d more problems are not shown: correct those above first", hidden)
	return append(ds[:maxDiagnostics:maxDiagnostics], Diagnostic{File: ds[0].File, Severity: severity, Message: says.String(), Text: says})
}

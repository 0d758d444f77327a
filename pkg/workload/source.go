package workload

import (
	"strings"
	"unicode/utf8"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// source is the text of a file, the document that is being read, and the problems so far.
type source struct {
	file  string
	lines []string
	// first is the index in lines of the current document's first line.
	first       int
	diagnostics Diagnostics
	// noAliases refuses aliases.
	noAliases bool
	// filled says that the preset of the document is filled in.
	filled bool
	// probed is the number of bytes parsed to locate syntax errors.
	probed int
}

// addDiagnostic adds a problem; line counts from 1 in the current document, column in characters from 1.
func (s *source) addDiagnostic(severity Severity, line, column int, says phrase.Text) {
	diagnostic := Diagnostic{
		File: s.file, Line: s.first + max(line, 1), Column: max(column, 1), Severity: severity,
		Message: says.String(), Text: says,
	}
	if diagnostic.Line <= len(s.lines) {
		diagnostic.Source = strings.TrimRight(s.lines[diagnostic.Line-1], lineBreaks)
	}
	s.diagnostics = append(s.diagnostics, diagnostic)
}

// lineBreaks are the characters that end a line in YAML 1.1, by which go-yaml counts lines.
const lineBreaks = "\r\n\u0085\u2028\u2029"

// splitLines cuts text after each line break as the YAML parser does, so that line numbers agree.
func splitLines(text string) []string {
	var lines []string
	for text != "" {
		end := strings.IndexAny(text, lineBreaks)
		if end < 0 {
			return append(lines, text)
		}
		_, width := utf8.DecodeRuneInString(text[end:])
		if strings.HasPrefix(text[end:], "\r\n") {
			width = 2
		}
		lines = append(lines, text[:end+width])
		text = text[end+width:]
	}
	return lines
}

// chunk is the lines of one document: [first, end).
type chunk struct{ first, end int }

// splitDocuments finds the documents between the markers --- and ... ; chunks without content are omitted. YAML does not allow a marker at the
// beginning of any other line, not even in a block of text.
func splitDocuments(lines []string) []chunk {
	var chunks []chunk
	current, blank, directive := chunk{}, true, false
	cut := func(at, next int) {
		current.end = at
		if !blank {
			chunks = append(chunks, current)
		}
		current.first, blank, directive = next, true, false
	}
	for i, line := range lines {
		switch {
		case isMarker(line, "..."):
			cut(i, i+1)
			continue
		case !isMarker(line, "---"):
		case strings.TrimSpace(line) == "---" && !directive:
			cut(i, i+1)
			continue
		case !blank:
			cut(i, i)
		}
		blank = blank && isBlank(line)
		directive = directive || strings.HasPrefix(line, "%")
	}
	cut(len(lines), len(lines))
	return chunks
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\r\n"))
}

// isBlank reports whether a line contains only space, a comment, a directive or a marker.
func isBlank(line string) bool {
	text := strings.TrimSpace(line)
	return text == "" || text[0] == '#' || line[0] == '%' || text == "---"
}

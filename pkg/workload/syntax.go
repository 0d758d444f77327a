package workload

import (
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// parseYAML parses the lines of one document. It returns nil after reporting why the text is not YAML.
func parseYAML(src *source, lines []string) *yaml.Node {
	var root yaml.Node
	err := yaml.Unmarshal([]byte(strings.Join(lines, "")), &root)
	if err == nil {
		return &root
	}
	line, says := locateSyntaxError(src, lines, err)
	column := 1
	if line <= len(lines) {
		text := lines[line-1]
		indent := len(text) - len(strings.TrimLeft(text, " \t"))
		column += indent
		if tab := strings.IndexByte(text[:indent], '\t'); tab >= 0 {
			column = 1 + tab
			says = phrase.Textf("a tab is used for indentation: YAML allows only spaces")
		} else if strings.HasSuffix(err.Error(), beginsNothing) {
			column = src.strayColumn(lines[:line], column)
		}
	}
	src.addDiagnostic(SeverityError, line, column, says)
	return nil
}

// beginsNothing is the parser's message for a character that no value can begin with. It does not contain the column.
const beginsNothing = "found character that cannot start any token"

// strayColumn finds the column of that character in the last of some lines: the first column up to which the parser reports it, or else the given
// one.
func (s *source) strayColumn(lines []string, begins int) int {
	above, text := strings.Join(lines[:len(lines)-1], ""), lines[len(lines)-1]
	for at, r := range text {
		if !strings.ContainsRune("`@%\t", r) {
			continue
		}
		if s.probed += len(above) + at; s.probed > maxProbeBytes {
			break
		}
		var node yaml.Node
		err := yaml.Unmarshal([]byte(above+text[:at+1]), &node)
		if err != nil && strings.HasSuffix(err.Error(), beginsNothing) {
			return 1 + utf8.RuneCountInString(text[:at])
		}
	}
	return begins
}

// parserMessages replaces messages of the YAML parser that only authors of parsers understand.
var parserMessages = map[string]phrase.Text{
	"did not find expected key": phrase.Textf("this line does not fit the lines above: " +
		"check its indentation, a missing colon or an open quote"),
	"did not find expected '-' indicator":                    phrase.Textf("this line does not fit the list above: check its indentation"),
	"mapping values are not allowed in this context":         phrase.Textf("a colon is not allowed here: check the indentation and the line above, or put the text in quotes"),
	"could not find expected ':'":                            phrase.Textf("a key must end with a colon, as in \"gpu: 1\""),
	"found unexpected end of stream":                         phrase.Textf("a quote is opened and never closed"),
	"did not find expected ',' or ']'":                       phrase.Textf("a list in brackets lacks a comma or its closing bracket ]"),
	"did not find expected ',' or '}'":                       phrase.Textf("a section in braces lacks a comma or its closing brace }"),
	beginsNothing:                                            phrase.Textf("this character cannot begin a value: put the text in quotes"),
	"block sequence entries are not allowed in this context": phrase.Textf("a list entry is not allowed here: check the indentation"),
}

var parserLine = regexp.MustCompile(`^(?:line (\d+): )?(.*)$`)

// locateSyntaxError finds the line of a syntax error. The parser names the line where the broken section or list began, often far above; the actual
// error is in the first line with which the text no longer parses.
func locateSyntaxError(src *source, lines []string, err error) (line int, says phrase.Text) {
	parts := parserLine.FindStringSubmatch(strings.TrimPrefix(err.Error(), "yaml: "))
	line, _ = strconv.Atoi(parts[1])
	line = max(line, 1)
	message, known := parserMessages[parts[2]]
	if !known {
		message = phrase.Quote(parts[2])
	}
	if broken := firstBroken(src, lines); broken > 0 {
		line = broken
	}
	return line, phrase.Textf("invalid YAML: %s", message)
}

// Cost limits for locating syntax errors: how many lines firstBroken tries individually, and how many bytes are parsed again for all syntax errors of
// a file. Beyond that, the parser's line is reported.
const (
	maxProbes     = 300
	maxProbeBytes = 3 << 20
)

// firstBroken returns the number of the first line that no longer parses with those above it, or 0 if that is too expensive to find. A text cut
// before a top-level key is complete, so bisection works there. The lines of the broken top-level entry are then tried from its end, because text
// that spans lines is incomplete in between.
func firstBroken(src *source, lines []string) int {
	starts := []int{0}
	for i, line := range lines {
		if i > 0 && strings.TrimSpace(line) != "" && !strings.ContainsAny(line[:1], " \t#-]}") {
			starts = append(starts, i)
		}
	}
	broken := sort.Search(len(starts), func(i int) bool { return !src.isValidYAML(lines[:starts[i]]) })
	if src.probed > maxProbeBytes {
		return 0
	}
	first, last := starts[broken-1], len(lines)
	if broken < len(starts) {
		last = starts[broken]
	}
	if last-first > maxProbes {
		return 0
	}
	for n := last; n > first; n-- {
		if src.isValidYAML(lines[:n]) {
			return min(n+1, len(lines))
		}
		if src.probed > maxProbeBytes {
			return 0
		}
	}
	return first + 1
}

// isValidYAML reports whether lines are valid YAML. Once the file has cost too much, it returns false without parsing.
func (s *source) isValidYAML(lines []string) bool {
	if s.probed > maxProbeBytes {
		return false
	}
	text := strings.Join(lines, "")
	s.probed += len(text)
	var node yaml.Node
	return yaml.Unmarshal([]byte(text), &node) == nil
}

// invalidUTF8 returns the line and column of the first invalid UTF-8 byte, both from 1, or 0.
func invalidUTF8(lines []string) (line, column int) {
	for i, text := range lines {
		if utf8.ValidString(text) {
			continue
		}
		column = 1
		for text != "" {
			r, width := utf8.DecodeRuneInString(text)
			if r == utf8.RuneError && width == 1 {
				return i + 1, column
			}
			text = text[width:]
			column++
		}
	}
	return 0, 0
}

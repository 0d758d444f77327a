package phrase

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// messageFile is the file with the formats of English messages that our programs store in the cluster, such as the message of a condition: their
// readers get only the text.
const messageFile = "zh/messages.yaml"

// sharedFormats are formats of stored messages that are also used elsewhere, and have their translations there.
var sharedFormats = []string{
	"asks %s, the namespace may have %s (quota %s): it never fits", "asks %s, and %s of %s are in use (quota %s)",
}

// fragmentFormats are formats of fragments within a message: an amount, or a place. Names are not among them.
var fragmentFormats = []string{
	"%d jobs", "%d GPUs", "%d nodes", "%d pods", "%d GPUQuotas", "1 job", "1 GPU", "1 node", "1 pod", "1 GPUQuota",
	"type %s in pool %s", "pool %s",
}

// messagePattern is a pattern for texts that a format has produced.
type messagePattern struct {
	format string
	whole  *regexp.Regexp
	// piece is the longest literal between the verbs. A text without it cannot match.
	piece string
	// verbs are the verbs of the values: s, q, d or g.
	verbs []byte
}

var messagePatterns = sync.OnceValue(func() []messagePattern {
	words := map[string]string{}
	if data, err := files.ReadFile(messageFile); err != nil || yaml.Unmarshal(data, &words) != nil {
		return nil
	}
	formats := slices.AppendSeq(slices.Clone(sharedFormats), maps.Keys(words))
	// If two match, the one with more literal text is more specific.
	slices.SortFunc(formats, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return newMessagePatterns(formats)
})

func newMessagePatterns(formats []string) []messagePattern {
	out := make([]messagePattern, len(formats))
	for i, format := range formats {
		out[i] = newMessagePattern(format)
	}
	return out
}

// valuePatterns match the output of verbs of package fmt.
var valuePatterns = map[byte]string{'s': `(.+?)`, 'd': `(\d{1,18})`, 'g': `(\d{1,18}(?:\.\d{1,18})?)`, 'q': `("(?:[^"\\]|\\.)*")`}

// newMessagePattern returns a pattern for the texts of a format with the verbs %s, %d, %g and %q.
func newMessagePattern(format string) messagePattern {
	out := messagePattern{format: format}
	pattern := `(?s)^`
	for {
		literal, rest, verb := strings.Cut(format, "%")
		pattern += regexp.QuoteMeta(literal)
		if len(literal) > len(out.piece) {
			out.piece = literal
		}
		if !verb || rest == "" {
			break
		}
		if value := valuePatterns[rest[0]]; value != "" {
			pattern += value
			out.verbs = append(out.verbs, rest[0])
		} else { // a percent sign
			pattern += regexp.QuoteMeta(rest[:1])
		}
		format = rest[1:]
	}
	out.whole = regexp.MustCompile(pattern + `$`)
	return out
}

// parseValues returns the values in a text at the verbs of the format; false if the text does not match.
func (r *messagePattern) parseValues(text string) ([]any, bool) {
	if !strings.Contains(text, r.piece) {
		return nil, false
	}
	found := r.whole.FindStringSubmatch(text)
	if found == nil {
		return nil, false
	}
	out := make([]any, len(r.verbs))
	for i, value := range found[1:] {
		out[i] = parseValue(r.verbs[i], value)
	}
	return out, true
}

// parseValue parses a value according to its verb.
func parseValue(verb byte, text string) any {
	switch verb {
	case 'd':
		if number, err := strconv.Atoi(text); err == nil {
			return number
		}
	case 'g':
		if number, err := strconv.ParseFloat(text, 64); err == nil {
			return number
		}
	case 'q':
		if word, err := strconv.Unquote(text); err == nil {
			return word
		}
	}
	return text
}

// TranslateMessage translates a stored English message of ours, such as the message of a condition. It may consist of several, separated by
// semicolons. Text of others is not changed.
func (l Language) TranslateMessage(text string) string {
	if l != Chinese {
		return text
	}
	if words, ok := translateSentence(text); ok {
		return words
	}
	parts := strings.Split(text, "; ")
	known := false
	for i, part := range parts {
		words, ok := translateSentence(part)
		known = known || ok
		parts[i] = words
	}
	if !known {
		return text
	}
	return strings.Join(parts, "；")
}

func translateSentence(text string) (string, bool) {
	if words := Chinese.Translate(text); words != text {
		return words, true
	}
	for _, known := range messagePatterns() {
		values, ok := known.parseValues(text)
		if !ok {
			continue
		}
		for i, value := range values {
			if word, isText := value.(string); isText {
				values[i] = translateFragment(word)
			}
		}
		return FromTemplate(known.format, values).Localize(Chinese), true
	}
	return text, false
}

var fragmentPatterns = sync.OnceValue(func() []messagePattern { return newMessagePatterns(fragmentFormats) })

// translateFragment translates a fragment of a message to Chinese.
func translateFragment(text string) string {
	for _, known := range fragmentPatterns() {
		if values, ok := known.parseValues(text); ok {
			return strings.TrimSpace(FromTemplate(known.format, values).Localize(Chinese))
		}
	}
	return text
}

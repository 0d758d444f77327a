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

// made are the formats of what programs of ours write into the cluster in English, such as the message of a condition: who reads
// it again has the text alone.
const made = "zh/messages.yaml"

// saidToo are formats of messages that are said elsewhere, too, and have their words there.
var saidToo = []string{
	"asks %s, the namespace may have %s (quota %s): it never fits", "asks %s, and %s of %s are in use (quota %s)",
}

// within are formats of what stands within a message: an amount, or a place. A name is none of them.
var within = []string{
	"%d jobs", "%d GPUs", "%d nodes", "%d pods", "%d GPUQuotas", "1 job", "1 GPU", "1 node", "1 pod", "1 GPUQuota",
	"type %s in pool %s", "pool %s",
}

// recognised is a format that texts are found to be made by.
type recognised struct {
	format string
	whole  *regexp.Regexp
	// piece is the longest of the words between the verbs, without which nothing needs to be compared.
	piece string
	// verbs are what stands in place of each value: s, q, d or g.
	verbs []byte
}

var recognisable = sync.OnceValue(func() []recognised {
	words := map[string]string{}
	if data, err := files.ReadFile(made); err != nil || yaml.Unmarshal(data, &words) != nil {
		return nil
	}
	formats := slices.AppendSeq(slices.Clone(saidToo), maps.Keys(words))
	// Of two that fit, the one with more words of its own says more.
	slices.SortFunc(formats, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	return recognisers(formats)
})

func recognisers(formats []string) []recognised {
	out := make([]recognised, len(formats))
	for i, format := range formats {
		out[i] = recogniser(format)
	}
	return out
}

// valuePatterns are what verbs of package fmt make.
var valuePatterns = map[byte]string{'s': `(.+?)`, 'd': `(\d{1,18})`, 'g': `(\d{1,18}(?:\.\d{1,18})?)`, 'q': `("(?:[^"\\]|\\.)*")`}

// recogniser finds what a format with the verbs %s, %d, %g and %q has made.
func recogniser(format string) recognised {
	out := recognised{format: format}
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

// values are what a text has in place of the verbs of the format; false for a text that it has not made.
func (r *recognised) values(text string) ([]any, bool) {
	if !strings.Contains(text, r.piece) {
		return nil, false
	}
	found := r.whole.FindStringSubmatch(text)
	if found == nil {
		return nil, false
	}
	out := make([]any, len(r.verbs))
	for i, value := range found[1:] {
		out[i] = valueOf(r.verbs[i], value)
	}
	return out, true
}

// valueOf is a value as its verb takes it.
func valueOf(verb byte, text string) any {
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

// Message is a text of ours in the language that was written down in English, such as the message of a condition. It may be
// several, with a semicolon between them. What others have said stays as it is.
func (l Language) Message(text string) string {
	if l != Chinese {
		return text
	}
	if words, ok := message(text); ok {
		return words
	}
	parts := strings.Split(text, "; ")
	known := false
	for i, part := range parts {
		words, ok := message(part)
		known = known || ok
		parts[i] = words
	}
	if !known {
		return text
	}
	return strings.Join(parts, "；")
}

func message(text string) (string, bool) {
	if words := Chinese.Words(text); words != text {
		return words, true
	}
	for _, known := range recognisable() {
		values, ok := known.values(text)
		if !ok {
			continue
		}
		for i, value := range values {
			if word, isText := value.(string); isText {
				values[i] = partOf(word)
			}
		}
		return Template(known.format, values).In(Chinese), true
	}
	return text, false
}

var parts = sync.OnceValue(func() []recognised { return recognisers(within) })

// partOf is what stands within a message, in Chinese.
func partOf(text string) string {
	for _, known := range parts() {
		if values, ok := known.values(text); ok {
			return strings.TrimSpace(Template(known.format, values).In(Chinese))
		}
	}
	return text
}

package cli

import (
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// noun is the singular and the plural of a word.
type noun struct{ one, many phrase.Text }

// nounWithLabel is the prefix of the noun for nodes that have a label.
const nounWithLabel = "node with label "

// nouns are the words with a translation in every language.
var nouns = map[string]noun{
	"job":          {phrase.Of("job"), phrase.Of("jobs")},
	"finished job": {phrase.Of("finished job"), phrase.Of("finished jobs")},
	"waiting job":  {phrase.Of("waiting job"), phrase.Of("waiting jobs")},
	"pod":          {phrase.Of("pod"), phrase.Of("pods")},
	"node":         {phrase.Of("node"), phrase.Of("nodes")},
	"pool":         {phrase.Of("pool"), phrase.Of("pools")},
	"label":        {phrase.Of("label"), phrase.Of("labels")},
	"event":        {phrase.Of("event"), phrase.Of("events")},
	"quota":        {phrase.Of("quota"), phrase.Of("quotas")},
	"preset":       {phrase.Of("preset"), phrase.Of("presets")},
	"namespace":    {phrase.Of("namespace"), phrase.Of("namespaces")},
	"replica":      {phrase.Of("replica"), phrase.Of("replicas")},
	"reservation":  {phrase.Of("reservation"), phrase.Of("reservations")},
}

// nounOf returns a noun in every language. Kinds of objects have the same name in all languages.
func nounOf(word string) noun {
	if key, ok := strings.CutPrefix(word, nounWithLabel); ok {
		return noun{phrase.Of("node with label %s", key), phrase.Of("nodes with label %s", key)}
	}
	if known, ok := nouns[word]; ok {
		return known
	}
	return noun{phrase.Quote(word), phrase.Quote(word + "s")}
}

// plural formats a count with its noun.
func plural(n int, word string) phrase.Text {
	if n == 1 {
		switch word {
		case "GPU":
			return phrase.Of("1 GPU")
		case "node":
			return phrase.Of("1 node")
		case "pod":
			return phrase.Of("1 pod")
		case "job":
			return phrase.Of("1 job")
		case "file":
			return phrase.Of("1 file")
		}
		return phrase.Of("1 %s", nounOf(word).one)
	}
	switch word {
	case "GPU":
		return phrase.Of("%d GPUs", n)
	case "node":
		return phrase.Of("%d nodes", n)
	case "pod":
		return phrase.Of("%d pods", n)
	case "job":
		return phrase.Of("%d jobs", n)
	case "file":
		return phrase.Of("%d files", n)
	}
	return phrase.Of("%d %s", n, nounOf(word).many)
}

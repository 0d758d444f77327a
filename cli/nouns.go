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
	"job":          {phrase.Textf("job"), phrase.Textf("jobs")},
	"finished job": {phrase.Textf("finished job"), phrase.Textf("finished jobs")},
	"waiting job":  {phrase.Textf("waiting job"), phrase.Textf("waiting jobs")},
	"pod":          {phrase.Textf("pod"), phrase.Textf("pods")},
	"node":         {phrase.Textf("node"), phrase.Textf("nodes")},
	"pool":         {phrase.Textf("pool"), phrase.Textf("pools")},
	"label":        {phrase.Textf("label"), phrase.Textf("labels")},
	"event":        {phrase.Textf("event"), phrase.Textf("events")},
	"quota":        {phrase.Textf("quota"), phrase.Textf("quotas")},
	"secret":       {phrase.Textf("secret"), phrase.Textf("secrets")},
	"volume":       {phrase.Textf("volume"), phrase.Textf("volumes")},
	"preset":       {phrase.Textf("preset"), phrase.Textf("presets")},
	"namespace":    {phrase.Textf("namespace"), phrase.Textf("namespaces")},
	"replica":      {phrase.Textf("replica"), phrase.Textf("replicas")},
	"reservation":  {phrase.Textf("reservation"), phrase.Textf("reservations")},
}

// lookupNoun returns a noun in every language. Kinds of objects have the same name in all languages.
func lookupNoun(word string) noun {
	if key, ok := strings.CutPrefix(word, nounWithLabel); ok {
		return noun{phrase.Textf("node with label %s", key), phrase.Textf("nodes with label %s", key)}
	}
	if known, ok := nouns[word]; ok {
		return known
	}
	return noun{phrase.Quote(word), phrase.Quote(word + "s")}
}

// countText formats a count with its noun.
func countText(n int, word string) phrase.Text {
	if n == 1 {
		switch word {
		case "GPU":
			return phrase.Textf("1 GPU")
		case "node":
			return phrase.Textf("1 node")
		case "pod":
			return phrase.Textf("1 pod")
		case "job":
			return phrase.Textf("1 job")
		case "file":
			return phrase.Textf("1 file")
		}
		return phrase.Textf("1 %s", lookupNoun(word).one)
	}
	switch word {
	case "GPU":
		return phrase.Textf("%d GPUs", n)
	case "node":
		return phrase.Textf("%d nodes", n)
	case "pod":
		return phrase.Textf("%d pods", n)
	case "job":
		return phrase.Textf("%d jobs", n)
	case "file":
		return phrase.Textf("%d files", n)
	}
	return phrase.Textf("%d %s", n, lookupNoun(word).many)
}

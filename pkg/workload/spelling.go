package workload

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// spellings returns the three ways to write a kebab-case key: gpu-type, gpuType and gpu_type.
func spellings(kebab string) [3]string {
	words := strings.Split(kebab, "-")
	camel := words[0]
	for _, w := range words[1:] {
		camel += strings.ToUpper(w[:1]) + w[1:]
	}
	return [3]string{kebab, camel, strings.Join(words, "_")}
}

// matches says whether key is one of the spellings of the kebab-case name.
func matches(key, kebab string) bool {
	all := spellings(kebab)
	return slices.Contains(all[:], key)
}

// fold removes what differs between spellings, so that only real differences count as distance.
func fold(key string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(key))
}

// maxWord is the longest key for which a suggestion is sought: the search is quadratic in its length.
const maxWord = 64

// suggest returns the candidate that word most likely means, or "" if none is close.
func suggest(word string, candidates []string) string {
	folded := fold(word)
	if len(folded) < 2 || len(folded) > maxWord {
		return ""
	}
	best, bestDistance := "", 1+len(folded)/3
	for _, c := range candidates {
		distance := levenshtein.ComputeDistance(folded, fold(c))
		if distance > 0 && len(folded) >= 3 && strings.HasPrefix(fold(c), folded) {
			distance = 1 // an abbreviation: mem for memory
		}
		if distance < bestDistance {
			best, bestDistance = c, distance
		}
	}
	return best
}

// didYouMean renders a suggestion for the end of a message; "" if there is none.
func didYouMean(word string, candidates []string) string {
	if s := suggest(word, candidates); s != "" {
		return ` (did you mean "` + s + `"?)`
	}
	return ""
}

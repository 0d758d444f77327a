// Package spelling finds the word that was meant by one that nothing is called by.
package spelling

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// longest is the longest word for which another is sought: the search is quadratic in its length.
const longest = 64

// furthest is the number of wrong letters up to which another name may be meant: more in a long one, as in train-pool
// for training-pool.
func furthest(name string) int { return max(2, len(name)/4) }

// Nearest returns the known word that is probably meant, "" if none is. Upper and lower case, hyphens and underscores make
// no difference. A word may be cut short after three letters, and two letters that have changed places count as one.
func Nearest(word string, known []string) string {
	folded := fold(word)
	if len(folded) < 2 || len(folded) > longest {
		return ""
	}
	best, least := "", longest
	for _, candidate := range known {
		if d := distance(folded, fold(candidate)); d < least && d <= furthest(candidate) && 2*d < len(candidate) {
			best, least = candidate, d
		}
	}
	return best
}

// DidYouMean is the end of a message about a word that is not known: ` (did you mean "x"?)`, or nothing if nothing is near.
func DidYouMean(word string, known []string) phrase.Text {
	if near := Nearest(word, known); near != "" {
		return phrase.Of(" (did you mean %q?)", near)
	}
	return nil
}

// fold removes what differs between spellings of one word.
func fold(word string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(word))
}

func distance(word, known string) int {
	d := levenshtein.ComputeDistance(word, known)
	switch {
	case d > 0 && len(word) >= 3 && strings.HasPrefix(known, word):
		return 1 // an abbreviation: mem for memory
	case d == 2 && sorted(word) == sorted(known):
		return 1
	}
	return d
}

// sorted are the letters of a word in order.
func sorted(word string) string {
	letters := []rune(word)
	slices.Sort(letters)
	return string(letters)
}

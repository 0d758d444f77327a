// Package spelling suggests the word that was meant by an unknown one.
package spelling

import (
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// maxWordLength is the maximum length of a word to search for: the search is quadratic in its length.
const maxWordLength = 64

// maxDistance is the maximum number of wrong letters of a suggestion: more in a long name, as in train-pool for training-pool.
func maxDistance(name string) int { return max(2, len(name)/4) }

// Nearest returns the known word that was probably meant, or "". It ignores case, hyphens and underscores. A word may be abbreviated to three letters
// or more, and two swapped letters count as one error.
func Nearest(word string, known []string) string {
	folded := foldWord(word)
	if len(folded) < 2 || len(folded) > maxWordLength {
		return ""
	}
	best, least := "", maxWordLength
	for _, candidate := range known {
		if d := wordDistance(folded, foldWord(candidate)); d < least && d <= maxDistance(candidate) && 2*d < len(candidate) {
			best, least = candidate, d
		}
	}
	return best
}

// DidYouMean returns the end of a message about an unknown word: ` (did you mean "x"?)`, or nothing if no known word is similar.
func DidYouMean(word string, known []string) phrase.Text {
	if near := Nearest(word, known); near != "" {
		return phrase.Textf(" (did you mean %q?)", near)
	}
	return nil
}

// foldWord removes the differences between spellings of one word.
func foldWord(word string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(word))
}

func wordDistance(word, known string) int {
	d := levenshtein.ComputeDistance(word, known)
	switch {
	case d > 0 && len(word) >= 3 && strings.HasPrefix(known, word):
		return 1 // an abbreviation: mem for memory
	case d == 2 && sortLetters(word) == sortLetters(known):
		return 1
	}
	return d
}

// sortLetters returns the letters of a word, sorted.
func sortLetters(word string) string {
	letters := []rune(word)
	slices.Sort(letters)
	return string(letters)
}

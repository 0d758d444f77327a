package doctor

import (
	"regexp"
	"strings"

	"github.com/agnivade/levenshtein"
)

// parts matches the parts of a name between its separators.
var parts = regexp.MustCompile(`[\pL\pN]+`)

// minTypoLength is the minimum length of a word in which one different letter is a typo: team-a and team-b are two names.
const minTypoLength = 4

// isTypo reports whether two names are spellings of one: with different case, with different separators, or with one letter wrong in one of the
// words. A part with a digit is a model, a size or a number, where each letter matters: nvidia-tesla-a100 is not nvidia-tesla-v100.
func isTypo(a, b string) bool {
	one, other := parts.FindAllString(strings.ToLower(a), -1), parts.FindAllString(strings.ToLower(b), -1)
	if strings.Join(one, "") == strings.Join(other, "") {
		return true
	}
	if len(one) != len(other) {
		return false
	}
	differ := 0
	for i := range one {
		if one[i] == other[i] {
			continue
		}
		if differ++; !isWordTypo(one[i], other[i]) {
			return false
		}
	}
	return differ == 1
}

// isWordTypo reports whether two words differ by one extra letter, or by one inner letter. The first and the last letter distinguish names that
// people enumerate, such as teama and teamb.
func isWordTypo(a, b string) bool {
	if min(len(a), len(b)) < minTypoLength || strings.ContainsAny(a+b, "0123456789") || levenshtein.ComputeDistance(a, b) != 1 {
		return false
	}
	return len(a) != len(b) || a[0] == b[0] && a[len(a)-1] == b[len(b)-1]
}

package doctor

import (
	"regexp"
	"strings"

	"github.com/agnivade/levenshtein"
)

// parts are what a name consists of between its separators.
var parts = regexp.MustCompile(`[\pL\pN]+`)

// leastSlip is how long a word must be for one letter in it to be a slip: team-a and team-b are two.
const leastSlip = 4

// isSlip reports whether two names are one, written in two ways: with other letters in upper case, with other
// separators, or with one letter wrong in one of its words. A part with a digit is a model, a size or a number, of which
// a letter makes another one: nvidia-tesla-a100 is no nvidia-tesla-v100.
func isSlip(a, b string) bool {
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
		if differ++; !isWordSlip(one[i], other[i]) {
			return false
		}
	}
	return differ == 1
}

// isWordSlip reports whether two words differ by one letter that is too many, or by another letter inside of them: the
// first and the last letter are what tells names apart that people count with, such as teama and teamb.
func isWordSlip(a, b string) bool {
	if min(len(a), len(b)) < leastSlip || strings.ContainsAny(a+b, "0123456789") || levenshtein.ComputeDistance(a, b) != 1 {
		return false
	}
	return len(a) != len(b) || a[0] == b[0] && a[len(a)-1] == b[len(b)-1]
}

package gpu

import (
	"regexp"
	"slices"
	"strings"
)

// words are the parts of a type's name between its separators.
var words = regexp.MustCompile(`[\pL\pN]+`)

// memorySize matches a part that gives the memory of a GPU, such as 80G.
var memorySize = regexp.MustCompile(`^[0-9]+(?:g|gb|gi|gib)$`)

// SameModel reports whether two names of GPU types may be spellings of one model. A user who writes nvidia-tesla-a100 does not mean
// nvidia-tesla-v100, though only a letter differs. The parts of a name with a digit identify its model, except one that gives the memory. A name that
// omits some of them may be the other.
func SameModel(a, b string) bool {
	one, other := modelParts(a), modelParts(b)
	if len(one) > len(other) {
		one, other = other, one
	}
	return !slices.ContainsFunc(one, func(part string) bool { return !slices.Contains(other, part) })
}

func modelParts(name string) []string {
	return slices.DeleteFunc(words.FindAllString(strings.ToLower(name), -1), func(part string) bool {
		return !strings.ContainsAny(part, "0123456789") || memorySize.MatchString(part)
	})
}

// NamesModelOf reports whether all words of one name are words of the other, and one of them identifies the model: T4 names the model of Tesla-T4,
// and NVIDIA-Tesla-T4 that of T4.
func NamesModelOf(a, b string) bool {
	one, other := words.FindAllString(strings.ToLower(a), -1), words.FindAllString(strings.ToLower(b), -1)
	if len(one) > len(other) {
		one, other = other, one
	}
	return len(modelParts(strings.Join(one, " "))) > 0 && !slices.ContainsFunc(one, func(word string) bool { return !slices.Contains(other, word) })
}

package workload

import (
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// TypeIn returns the type of a field in a language. Words to choose from are the same in all languages.
func (f Field) TypeIn(language phrase.Language) string {
	word, choice, list := f.typeParts()
	text := joinAlternatives(choice).Localize(language)
	if len(choice) == 0 {
		text = word
		if words := language.Translate(typeKey(word)); words != typeKey(word) {
			text = words
		}
	}
	if list {
		text += phrase.Textf(", or a list of them").Localize(language)
	}
	return text
}

// TypeKey is the catalogue key of a field's type, "" for a choice of words.
func (f Field) TypeKey() string {
	word, choice, _ := f.typeParts()
	if len(choice) > 0 {
		return ""
	}
	return typeKey(word)
}

// typeKey separates type words, such as path, from fields of the same name.
func typeKey(word string) string { return "<" + word + ">" }

// typeParts splits a type into a word for it, or the words to choose from, and whether a list is also accepted.
func (f Field) typeParts() (word string, choice []string, list bool) {
	word, list = strings.CutSuffix(f.Type, ", or a list of them")
	first, last, several := strings.Cut(word, " or ")
	if !several {
		return word, nil, list
	}
	choice = append(strings.Split(first, ", "), last)
	for _, one := range choice {
		if one == "" || strings.Contains(one, " ") || strings.HasSuffix(one, ",") {
			return word, nil, list
		}
	}
	return "", choice, list
}

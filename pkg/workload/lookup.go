package workload

import (
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// Lookup finds a field by a path that begins with its kind, such as training.resources.gpu-share, in any spelling and without the brackets of lists.
// It returns the field, and the fields directly below it; for a kind alone, an empty field and the top-level fields. The error suggests a similar
// name if there is one.
func Lookup(path string) (kind Kind, found Field, below []Field, err error) {
	word, rest, _ := strings.Cut(path, ".")
	kind, ok := lookupKind(word)
	if !ok {
		return "", Field{}, nil, phrase.Errorf("there is no kind %q%s: write one of %s", word, spelling.DidYouMean(word, kindNames(Kinds)), joinAlternatives(Kinds))
	}
	fs, at := fieldTable(kind), ""
	for _, step := range strings.FieldsFunc(strings.NewReplacer("[]", "").Replace(rest), func(r rune) bool { return r == '.' }) {
		f, ok := fs.findField(step)
		if !ok || !f.allowsKind(kind) {
			return "", Field{}, nil, phrase.Errorf("%s has no field %q%s", strings.TrimSuffix(string(kind)+"."+at, "."), step, spelling.DidYouMean(step, fs.fieldNames(kind)))
		}
		at, fs = joinPath(at, f.name), f.value.fields
	}
	prefix := ""
	for _, f := range Fields(kind) {
		bare := strings.ReplaceAll(f.Path, "[]", "")
		if bare == at {
			found, prefix = f, at+"."
		}
		if name, isBelow := strings.CutPrefix(bare, prefix); isBelow && name != "" && !strings.Contains(name, ".") && (prefix != "" || at == "") {
			below = append(below, f)
		}
	}
	return kind, found, below, nil
}

func kindNames(kinds []Kind) []string {
	out := make([]string, len(kinds))
	for i, kind := range kinds {
		out[i] = string(kind)
	}
	return out
}

// KindsWith lists the kinds that have a field, by its path without a kind, such as resources.gpu.
func KindsWith(path string) []Kind {
	var out []Kind
	for _, kind := range Kinds {
		if _, found, _, err := Lookup(string(kind) + "." + path); err == nil && found.Path != "" {
			out = append(out, kind)
		}
	}
	return out
}

// Choices returns the words that a field accepts, in the kinds that have it; none for a field that accepts other values.
func Choices(kinds []Kind, path string) []string {
	var out []string
	for _, kind := range kinds {
		if f, ok := fieldAt(kind, path); ok {
			out = append(out, f.value.words...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

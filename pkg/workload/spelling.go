package workload

import (
	"slices"
	"strings"
)

// keySpellings returns the three spellings of a kebab-case key: gpu-type, gpuType and gpu_type.
func keySpellings(kebab string) [3]string {
	words := strings.Split(kebab, "-")
	camel := words[0]
	for _, w := range words[1:] {
		camel += strings.ToUpper(w[:1]) + w[1:]
	}
	return [3]string{kebab, camel, strings.Join(words, "_")}
}

// IsSpelling reports whether a key is one of the spellings of a field name in kebab-case.
func IsSpelling(key, kebab string) bool {
	all := keySpellings(kebab)
	return slices.Contains(all[:], key)
}

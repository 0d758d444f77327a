// Package bounded limits the values of a metric label, whoever chooses them: every kubelet, and everyone who may label nodes, writes node labels.
package bounded

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Others is the label of all values beyond the limit.
const Others = "(others)"

// Names returns the label of each name: the name itself for the largest ones up to most, and [Others] for the rest. Ties are broken by name, so that
// results are stable.
func Names(sizes map[string]int64, most int) map[string]string {
	sorted := slices.SortedFunc(maps.Keys(sizes), func(a, b string) int {
		return cmp.Or(cmp.Compare(sizes[b], sizes[a]), strings.Compare(a, b))
	})
	out := make(map[string]string, len(sorted))
	for i, name := range sorted {
		if out[name] = name; i >= most {
			out[name] = Others
		}
	}
	return out
}

// Package bounded keeps the values of a metric's label to so many, whoever chooses the names: labels of nodes are written by
// every kubelet and whoever may label nodes.
package bounded

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Others stands for all that are not told one by one.
const Others = "(others)"

// Names is what each name is counted as: itself for the largest, as many as most, and [Others] for the rest. Of equals those that are
// first by name count as larger, so that an answer is the same each time.
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

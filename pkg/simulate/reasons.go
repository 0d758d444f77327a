package simulate

import (
	"cmp"
	"maps"
	"slices"
)

// reasons counts why nodes were rejected.
type reasons map[string]int

func (r reasons) add(all []string) {
	for _, reason := range all {
		r[reason]++
	}
}

// list returns the reasons, the most frequent first.
func (r reasons) list() []string {
	return slices.SortedFunc(maps.Keys(r), func(a, b string) int {
		return cmp.Or(cmp.Compare(r[b], r[a]), cmp.Compare(a, b))
	})
}

package cli

import (
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/cli/monospace"
)

const (
	// minElasticWidth is how narrow a column of names may become, and minFittingWidth the last column of a table that fits.
	minElasticWidth = 12
	minFittingWidth = 16
)

// fitColumns narrows the columns of names, the widest first, until all others have their place: what has a number is not cut. Lesser columns go if that
// does not do.
func fitColumns[T any](shown []column[T], cells [][]string, style tableStyle) ([]column[T], [][]string, []int) {
	widths := columnWidths(cells, tableStyle{})
	for at := len(shown) - 2; at >= 0 && leastWidth(shown, widths) > style.width; at-- {
		if shown[at].lesser {
			shown, widths = slices.Delete(shown, at, at+1), slices.Delete(widths, at, at+1)
			for i := range cells {
				cells[i] = slices.Delete(cells[i], at, at+1)
			}
		}
	}
	last := len(widths) - 1
	whole := widths[last]
	widths[last] = min(whole, minFittingWidth)
	for room := style.width - sumWidths(widths); room < 0; room++ {
		widest := -1
		for j := range last {
			if shown[j].elastic && widths[j] > minElasticWidth && (widest < 0 || widths[j] > widths[widest]) {
				widest = j
			}
		}
		if widest < 0 {
			break
		}
		widths[widest]--
	}
	widths[last] = min(whole, widths[last]+max(0, style.width-sumWidths(widths)))
	return shown, cells, widths
}

// leastWidth is the least that a table takes.
func leastWidth[T any](shown []column[T], widths []int) int {
	least := slices.Clone(widths)
	for j := range least {
		if shown[j].elastic {
			least[j] = min(least[j], minElasticWidth)
		}
	}
	last := len(least) - 1
	least[last] = min(least[last], minFittingWidth)
	return sumWidths(least)
}

// sumWidths is the width of columns with the gaps between them.
func sumWidths(widths []int) int {
	sum := len(columnGap) * (len(widths) - 1)
	for _, width := range widths {
		sum += width
	}
	return sum
}

// shortenMiddle shortens a name to a width by its middle: the beginnings of names are alike, and their ends have the numbers.
func shortenMiddle(name string, width int) string {
	if monospace.Columns(name) <= width {
		return name
	}
	runes := []rune(name)
	head, tail := 0, len(runes)
	for left := width - 1; head < tail; {
		next := runes[head]
		if head > len(runes)-tail { // the end gets its turn
			next = runes[tail-1]
		}
		if left -= monospace.ColumnsOf(next); left < 0 {
			break
		}
		if head > len(runes)-tail {
			tail--
		} else {
			head++
		}
	}
	return strings.TrimSpace(string(runes[:head]) + "…" + string(runes[tail:]))
}

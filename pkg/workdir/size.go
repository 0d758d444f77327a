package workdir

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// SizeError says that a folder is too large to be sent, and names its largest files.
type SizeError struct {
	// Limit is the maximum size of the archive in bytes, and Size the size of the files. Packed says that the files are small enough, but their
	// archive is not.
	Limit, Size int64
	Packed      bool
	// Largest are the largest files.
	Largest []Entry
}

func (e *SizeError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *SizeError) Message() phrase.Text {
	says := phrase.Textf("the folder holds %s, and at most %s may be sent, which compress to %s", FormatBytes(e.Size), FormatBytes(maxCompressionRatio*e.Limit), FormatBytes(e.Limit))
	if e.Packed {
		says = phrase.Textf("the folder holds %s, which do not compress to the %s that may be sent", FormatBytes(e.Size), FormatBytes(e.Limit))
	}
	var named []string
	for _, entry := range e.Largest {
		named = append(named, fmt.Sprintf("%s (%s)", entry.Path, FormatBytes(entry.Size)))
	}
	return says.Addf("; the largest files are %s\nName what the job does not need in .gitignore, and mount data with storage", strings.Join(named, ", "))
}

// CountError says that a folder has too many files to be sent, and where most of them are.
type CountError struct{ Fullest []string }

func (e *CountError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *CountError) Message() phrase.Text {
	return phrase.Textf("the folder has more than %d files; most of them are in %s\nName what the job does not need in .gitignore",
		maxFiles, strings.Join(e.Fullest, ", "))
}

// sizeError returns the error of a folder that is too large.
func (l *Listing) sizeError(limit int64, packed bool) error {
	largest := slices.SortedStableFunc(slices.Values(l.Entries), func(a, b Entry) int { return cmp.Compare(b.Size, a.Size) })
	return &SizeError{Limit: limit, Size: l.Size, Packed: packed, Largest: largest[:min(len(largest), largestNamed)]}
}

// countError returns the error of a folder with too many files.
func (l *Listing) countError() error {
	count := map[string]int{}
	for _, entry := range l.Entries {
		top, _, _ := strings.Cut(entry.Path, "/")
		count[top]++
	}
	var folders []string
	for folder := range count {
		folders = append(folders, folder)
	}
	slices.SortFunc(folders, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	return &CountError{Fullest: folders[:min(len(folders), largestNamed)]}
}

// FormatBytes formats a size for people.
func FormatBytes(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/step, 0
	for ; size >= step && unit < len(units)-1; unit++ {
		size /= step
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + units[unit]
}

var units = []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}

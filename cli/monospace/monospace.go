// Package monospace counts and cuts text as a terminal shows it: in columns.
package monospace

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Columns returns how many terminal columns a text takes: a Chinese, Japanese or Korean character takes two, and a combining character takes none.
func Columns(text string) int {
	count := 0
	for _, r := range text {
		count += ColumnsOf(r)
	}
	return count
}

// ColumnsOf returns how many columns one character takes.
func ColumnsOf(r rune) int {
	switch {
	case r < 0x300: // Latin, without a table lookup
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case isWide(r):
		return 2
	}
	return 1
}

func isWide(r rune) bool {
	if r < 0x1100 {
		return false
	}
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}

// Truncate truncates a text to a number of columns.
func Truncate(text string, most int) string {
	if most <= 1 || Columns(text) <= most {
		return text
	}
	used := 0
	for at, r := range text {
		used += ColumnsOf(r)
		if used > most-1 {
			return text[:at] + "…"
		}
	}
	return text
}

// East Asian punctuation that must not begin a line, and that must not end one.
const (
	closing = "，。、；：？！）》」』】”’…"
	opening = "（《「『【“‘"
)

// BreakPieces returns the parts of a word between which a line may break: around each wide character, but not before closing or after opening
// punctuation. A word without wide characters is one piece.
func BreakPieces(word string) []string {
	var out []string
	start := 0
	before := rune(0)
	for at, r := range word {
		breaks := at > start && (isWide(before) || isWide(r)) && !strings.ContainsRune(closing, r) && !strings.ContainsRune(opening, before)
		if breaks {
			out = append(out, word[start:at])
			start = at
		}
		before = r
	}
	if start < len(word) || utf8.RuneCountInString(word) == 0 {
		out = append(out, word[start:])
	}
	return out
}

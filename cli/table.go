package cli

import (
	"io"
	"strings"
	"unicode/utf8"
)

// column is one column of a table over rows of type T.
type column[T any] struct {
	header string
	value  func(T) string
	// wide columns are shown by -o wide only, narrow ones never by -o wide.
	wide, narrow bool
	// color returns the colour of a cell, "" for none; nil never colours.
	color func(T) string
}

// tableStyle says how a table looks.
type tableStyle struct {
	wide, noHeaders, color bool
	// width is where the last column is cut, 0 for nowhere.
	width int
}

const (
	columnGap = "  "
	// leastLast is what the last column keeps however narrow the terminal is.
	leastLast = 24

	colorGreen  = "\x1b[32m"
	colorYellow = "\x1b[33m"
	colorRed    = "\x1b[31m"
	colorReset  = "\x1b[0m"
)

// writeTable writes rows below each other, with aligned columns.
func writeTable[T any](out io.Writer, rows []T, columns []column[T], style tableStyle) error {
	shown := shownColumns(columns, style.wide)
	cells := make([][]string, 0, len(rows)+1)
	if !style.noHeaders {
		header := make([]string, len(shown))
		for i, c := range shown {
			header[i] = c.header
		}
		cells = append(cells, header)
	}
	for _, row := range rows {
		line := make([]string, len(shown))
		for i, c := range shown {
			line[i] = oneLine(c.value(row))
		}
		cells = append(cells, line)
	}
	widths := columnWidths(cells, style.width)
	var text strings.Builder
	for i, line := range cells {
		data := i - (len(cells) - len(rows))
		for j, cell := range line {
			paint := ""
			if style.color && data >= 0 && shown[j].color != nil {
				paint = shown[j].color(rows[data])
			}
			writeCell(&text, cell, cellStyle{width: widths[j], last: j == len(line)-1, paint: paint})
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func shownColumns[T any](columns []column[T], wide bool) []column[T] {
	var out []column[T]
	for _, c := range columns {
		if wide && !c.narrow || !wide && !c.wide {
			out = append(out, c)
		}
	}
	return out
}

// columnWidths is the widest cell of each column; limit bounds the whole line by narrowing the last column.
func columnWidths(cells [][]string, limit int) []int {
	if len(cells) == 0 {
		return nil
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for j, cell := range line {
			widths[j] = max(widths[j], utf8.RuneCountInString(cell))
		}
	}
	if limit == 0 {
		return widths
	}
	last := len(widths) - 1
	rest := limit
	for _, width := range widths[:last] {
		rest -= width + len(columnGap)
	}
	widths[last] = min(widths[last], max(rest, leastLast))
	return widths
}

type cellStyle struct {
	width int
	last  bool
	paint string
}

func writeCell(text *strings.Builder, cell string, style cellStyle) {
	length := utf8.RuneCountInString(cell)
	if length > style.width {
		cell, length = string([]rune(cell)[:style.width-1])+"…", style.width
	}
	if style.paint != "" {
		cell = style.paint + cell + colorReset
	}
	text.WriteString(cell)
	if style.last {
		text.WriteByte('\n')
		return
	}
	text.WriteString(strings.Repeat(" ", style.width-length) + columnGap)
}

// oneLine keeps a cell on its line, and an empty one visible.
func oneLine(cell string) string {
	cell = strings.Join(strings.Fields(cell), " ")
	if cell == "" {
		return "-"
	}
	return cell
}

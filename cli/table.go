package cli

import (
	"encoding/csv"
	"io"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/cli/monospace"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// column is one column of a table over rows of type T.
type column[T any] struct {
	header string
	value  func(T) string
	// wide columns are shown only by -o wide, narrow ones only without it.
	wide, narrow bool
	// spill moves the part of a cell after ": " below its row if the terminal is too narrow for the whole.
	spill bool
	// elastic columns have names, which a screen that cannot be scrolled sideways shortens before it cuts anything else. It leaves out lesser columns
	// where that is not enough.
	elastic, lesser bool
	// spare columns are omitted if the terminal is too narrow for all, and optional ones if no row has a value.
	spare, optional bool
	// worded columns contain words of ours, which are translated into the language of the table. localized, if not nil, returns the value in a
	// language; programs, which read CSV, get the result of value. text is used instead of both for a [phrase.Text].
	worded    bool
	localized func(T, phrase.Language) string
	text      func(T) phrase.Text
	// color returns the colour of a cell, "" for none; nil never colours.
	color func(T) string
}

// tableStyle says how a table looks.
type tableStyle struct {
	wide, noHeaders, color bool
	// width is the column at which the last cell of a line is truncated; 0 truncates none. A fitting table is no wider than that.
	width int
	fits  bool
	// language is the language of headers and of words of ours in cells.
	language phrase.Language
	// sticky, if not nil, is the state that stays the same from one table to the next, as a watch needs.
	sticky *stickyColumns
}

// stickyColumns stores the headers of the columns of the first table, and the current width of each.
type stickyColumns struct {
	headers []string
	widths  []int
}

const (
	columnGap = "  "
	// minLastWidth is the minimum width of the last column on a narrow terminal.
	minLastWidth = 24

	colorGreen  = "\x1b[32m"
	colorYellow = "\x1b[33m"
	colorRed    = "\x1b[31m"
	colorReset  = "\x1b[0m"
)

// writeTable writes rows below each other, with aligned columns.
func writeTable[T any](out io.Writer, rows []T, columns []column[T], style tableStyle) error {
	_, err := io.WriteString(out, strings.Join(tableRows(rows, columns, style), ""))
	return err
}

// tableRows returns the lines of a table: its header, if it has one, and each row with the text below it.
func tableRows[T any](rows []T, columns []column[T], style tableStyle) []string {
	shown := chosenColumns(rows, columns, style)
	cells := tableCells(rows, shown, style)
	widths := columnWidths(cells, style)
	if style.fits {
		shown, cells, widths = fitColumns(shown, cells, style)
	}
	out := make([]string, 0, len(cells))
	for i, line := range cells {
		var text strings.Builder
		data := i - (len(cells) - len(rows))
		for j, cell := range line {
			paint := ""
			if style.color && data >= 0 && shown[j].color != nil {
				paint = shown[j].color(rows[data])
			}
			if style.fits && data >= 0 && shown[j].elastic {
				cell = shortenMiddle(cell, widths[j])
			}
			below := ""
			if data >= 0 && shown[j].spill && monospace.Columns(cell) > widths[j] {
				cell, below = splitCell(cell, widths[j])
			}
			writeCell(&text, cell, cellStyle{width: widths[j], last: j == len(line)-1, paint: paint})
			if below != "" {
				text.WriteString(wrapLine(spillIndent+below, style.width, len(spillIndent)) + "\n")
			}
		}
		out = append(out, text.String())
	}
	return out
}

// splitCell splits a cell that is too wide into the part that stays in its row and the part below it: after ": ", or else between two words.
func splitCell(cell string, width int) (stays, below string) {
	if head, rest, ok := strings.Cut(cell, ": "); ok && monospace.Columns(head) <= width {
		return head, rest
	}
	stays, below, _ = strings.Cut(wrapLine(cell, width, 0), "\n")
	return stays, strings.ReplaceAll(below, "\n", " ")
}

// tableCells returns the cells of a table, including those of its header.
func tableCells[T any](rows []T, shown []column[T], style tableStyle) [][]string {
	cells := make([][]string, 0, len(rows)+1)
	if !style.noHeaders {
		header := make([]string, len(shown))
		for i, c := range shown {
			header[i] = style.language.Translate(c.header)
		}
		cells = append(cells, header)
	}
	for _, row := range rows {
		line := make([]string, len(shown))
		for i, c := range shown {
			line[i] = cellText(c, row, style.language)
		}
		cells = append(cells, line)
	}
	return cells
}

// cellText returns the text of a cell in a language.
func cellText[T any](c column[T], row T, language phrase.Language) string {
	switch {
	case c.text != nil:
		return oneLine(c.text(row).Localize(language))
	case c.localized != nil:
		return oneLine(c.localized(row, language))
	case c.worded:
		return oneLine(language.Translate(c.value(row)))
	}
	return oneLine(c.plainValue(row))
}

// plainValue returns the value for programs.
func (c *column[T]) plainValue(row T) string {
	if c.text != nil {
		return c.text(row).String()
	}
	return c.value(row)
}

// markWord marks a word of ours in a worded column for translation.
func markWord(english string) string { return english }

// chosenColumns returns the columns that a table of these rows shows. A watch keeps the columns of its first table.
func chosenColumns[T any](rows []T, columns []column[T], style tableStyle) []column[T] {
	shown := shownColumns(columns, style.wide)
	if style.sticky != nil && len(style.sticky.headers) > 0 {
		return slices.DeleteFunc(shown, func(c column[T]) bool { return !slices.Contains(style.sticky.headers, c.header) })
	}
	shown = slices.DeleteFunc(shown, func(c column[T]) bool {
		return c.optional && !slices.ContainsFunc(rows, func(row T) bool { return c.plainValue(row) != "" })
	})
	if tooNarrow(tableCells(rows, shown, style), shown, style) {
		shown = slices.DeleteFunc(shown, func(c column[T]) bool { return c.spare })
	}
	if style.sticky != nil {
		for _, c := range shown {
			style.sticky.headers = append(style.sticky.headers, c.header)
		}
	}
	return shown
}

// tooNarrow reports whether the terminal is too narrow for the parts that cannot be moved below the rows.
func tooNarrow[T any](cells [][]string, shown []column[T], style tableStyle) bool {
	if style.width == 0 || len(cells) == 0 {
		return false
	}
	need := len(columnGap) * (len(shown) - 1)
	for j, c := range shown {
		widest := 0
		for _, line := range cells {
			cell := line[j]
			if c.spill {
				cell, _, _ = strings.Cut(cell, ": ")
			}
			widest = max(widest, monospace.Columns(cell))
		}
		need += widest
	}
	return need > style.width
}

// withoutColumn removes the column with a header.
func withoutColumn[T any](header string, columns []column[T]) []column[T] {
	return slices.DeleteFunc(slices.Clone(columns), func(c column[T]) bool { return c.header == header })
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

// columnWidths returns the width of the widest cell of each column; the style's width limits the last column.
func columnWidths(cells [][]string, style tableStyle) []int {
	if len(cells) == 0 {
		return nil
	}
	widths := make([]int, len(cells[0]))
	if style.sticky != nil {
		copy(widths, style.sticky.widths)
	}
	for _, line := range cells {
		for j, cell := range line {
			widths[j] = max(widths[j], monospace.Columns(cell))
		}
	}
	if style.sticky != nil {
		style.sticky.widths = slices.Clone(widths)
	}
	if style.width == 0 {
		return widths
	}
	last := len(widths) - 1
	rest := style.width
	for _, width := range widths[:last] {
		rest -= width + len(columnGap)
	}
	widths[last] = min(widths[last], max(rest, minLastWidth))
	return widths
}

type cellStyle struct {
	width int
	last  bool
	paint string
}

func writeCell(text *strings.Builder, cell string, style cellStyle) {
	length := monospace.Columns(cell)
	if length > style.width {
		cell = monospace.Truncate(cell, style.width)
		length = monospace.Columns(cell)
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

// spillIndent is the indent of text below a row.
const spillIndent = "    "

// oneLine keeps a cell on its line, and makes an empty one visible. Control characters are escaped before columns are counted.
func oneLine(cell string) string {
	if isPlainCell(cell) {
		return cell
	}
	cell = escapeControls(strings.Join(strings.Fields(cell), " "))
	if cell == "" {
		return "-"
	}
	return cell
}

// isPlainCell reports whether a cell is of visible ASCII characters with single blanks between, as nearly all are.
func isPlainCell(cell string) bool {
	blank := true // one at the beginning is none between
	for i := range len(cell) {
		switch c := cell[i]; {
		case c > ' ' && c < 0x7f:
			blank = false
		case c == ' ' && !blank:
			blank = true
		default:
			return false
		}
	}
	return !blank
}

// writeCSV writes rows as comma-separated values (RFC 4180), in the columns of the wide table.
func writeCSV[T any](out io.Writer, rows []T, columns []column[T], headers bool) error {
	shown := shownColumns(columns, true)
	w := csv.NewWriter(out)
	record := make([]string, len(shown))
	if headers {
		for i, c := range shown {
			record[i] = c.header
		}
		if err := w.Write(record); err != nil {
			return phrase.Errorf("writing the header: %w", err)
		}
	}
	for _, row := range rows {
		for i, c := range shown {
			record[i] = c.plainValue(row)
		}
		if err := w.Write(record); err != nil {
			return phrase.Errorf("writing a row: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The heat map's measures, in pixels.
const (
	tileWidth, tileHeight = 46, 24
	rowNames, columnNames = 170, 150
)

// heatMap draws the ratios: blue where our scheduler takes less, white at the same, red where it takes more. Each tile has
// its number, so that colour is not all there is to see.
func (f *figures) heatMap() string {
	var b strings.Builder
	width, height := rowNames+tileWidth*len(columns)+110, columnNames+tileHeight*len(rows)+10
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>CPU of a pod, by that of the stock scheduler</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, height)
	for i := range columns {
		fmt.Fprintf(&b, `<text transform="translate(%d,%d) rotate(-45)">%s</text>`+"\n",
			rowNames+tileWidth*i+tileWidth/2, columnNames-8, html.EscapeString(columns[i].name))
	}
	for i := range rows {
		y := columnNames + tileHeight*i
		fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`+"\n", rowNames-8, y+tileHeight*2/3, html.EscapeString(rows[i].name))
		for j := range columns {
			if c := f.cell(rows[i].name, columns[j].name); c != nil {
				tile(&b, rowNames+tileWidth*j, y, c)
			}
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func tile(b *strings.Builder, x, y int, c *cell) {
	ratio, _, _ := c.ratio()
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="%s"/><text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n",
		x, y, tileWidth-1, tileHeight-1, colour(ratio), x+tileWidth/2, y+tileHeight*2/3, shortly(ratio))
}

// colour is full at a tenth of the stock scheduler's CPU and at ten times as much.
func colour(ratio float64) string {
	depth := min(math.Abs(math.Log10(ratio)), 1)
	fade := func(to float64) int { return int(math.Round(255 - depth*(255-to))) }
	if ratio < 1 {
		return fmt.Sprintf("#%02x%02x%02x", fade(90), fade(160), fade(220))
	}
	return fmt.Sprintf("#%02x%02x%02x", fade(225), fade(90), fade(80))
}

// shortly writes a ratio in two digits or so.
func shortly(ratio float64) string {
	if ratio < 9.95 {
		return fmt.Sprintf("%.2f", ratio)
	}
	return fmt.Sprintf("%.0f", ratio)
}

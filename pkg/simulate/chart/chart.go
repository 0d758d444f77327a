// Package chart draws the plots of simulations and benchmarks as SVG, which browsers and Markdown show.
//
// It is our own because gpu-scheduler links it: the libraries for plots bring fonts, PDF and TIFF along, a dozen modules
// that a program with the rights of a scheduler is better without. Lines over two axes are all that is drawn.
package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
)

// Point is one value.
type Point struct{ X, Y float64 }

// Line is a series of values with a name.
type Line struct {
	Name   string
	Points []Point
}

// Lines is a plot of lines over common axes.
type Lines struct {
	Title, X, Y string
	// MinX and MinY are where the axes begin.
	MinX, MinY float64
	// LogX makes the X axis logarithmic, from 1 to a power of 10. Values of 0 and less are not drawn then.
	LogX   bool
	Legend Corner
	Lines  []Line
}

// Corner is where the legend stands.
type Corner int

// The corners.
const (
	TopLeft Corner = iota
	BottomRight
)

// The size of a plot and the room around its axes, in pixels.
const (
	width, height            = 680, 420
	left, right, top, bottom = 70, 20, 40, 55
	fontSize                 = 13
	legendLine               = 18
	legendThumb              = 36
)

// palette are colors that people with any color vision can distinguish (Okabe and Ito).
var palette = []string{"#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999"}

// dashes distinguish lines in black and white. There are fewer than colors by one, so that no pair repeats early.
var dashes = []string{"", "8 4", "2 3", "11 3 2 3", "4 2", "13 5", "5 2 1 2 1 2"}

// SVG draws the plot.
func (l *Lines) SVG() []byte {
	d := &drawing{x: axis{from: l.MinX, log: l.LogX}, y: axis{from: l.MinY}}
	drawn := make([][]Point, len(l.Lines))
	for i, line := range l.Lines {
		for _, point := range line.Points {
			if isFinite(point) && point.X >= l.MinX && (!l.LogX || point.X > 0) {
				drawn[i] = append(drawn[i], point)
				d.x.to, d.y.to = max(d.x.to, point.X), max(d.y.to, point.Y)
			}
		}
	}
	d.scaleAxes(l, drawn)
	fmt.Fprintf(&d.out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="%d">`+"\n",
		width, height, width, height, fontSize)
	fmt.Fprintf(&d.out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	d.drawAxes(l)
	for i, points := range drawn {
		d.drawLine(points, i)
	}
	d.drawLegend(l)
	d.out.WriteString("</svg>\n")
	return d.out.Bytes()
}

func isFinite(p Point) bool { return !math.IsNaN(p.X+p.Y) && !math.IsInf(p.X+p.Y, 0) }

// drawing is a plot on its way to SVG.
type drawing struct {
	out  bytes.Buffer
	x, y axis
}

// scaleAxes decides where the axes end.
func (d *drawing) scaleAxes(l *Lines, drawn [][]Point) {
	d.x.to = max(d.x.to, l.MinX+1)
	d.y.to = max(d.y.to, l.MinY+1) // a line at the bottom needs a scale, too
	if l.LogX {
		d.x.from, d.x.to = 1, math.Pow(10, math.Ceil(math.Log10(max(d.x.to, 10))))
	}
	if l.Legend == TopLeft && isCrowded(drawn, d.x, d.y) {
		d.y.to = l.MinY + 1.25*(d.y.to-l.MinY)
	}
}

// isCrowded reports whether a line runs behind the legend.
func isCrowded(drawn [][]Point, x, y axis) bool {
	for _, points := range drawn {
		for _, point := range points {
			if x.positionOf(point.X) < 0.25 && y.positionOf(point.Y) > 0.75 {
				return true
			}
		}
	}
	return false
}

func (d *drawing) pixelOf(p Point) (x, y float64) {
	return left + d.x.positionOf(p.X)*(width-left-right), height - bottom - d.y.positionOf(p.Y)*(height-top-bottom)
}

// drawAxes draws the grid with its numbers, and the titles of the axes.
func (d *drawing) drawAxes(l *Lines) {
	const grid = `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#cccccc"/>` + "\n"
	for _, tick := range d.x.tickValues() {
		x, y := d.pixelOf(Point{tick, d.y.from})
		fmt.Fprintf(&d.out, grid, x, y, x, float64(top))
		d.drawText(x, y+fontSize+6, "middle", tickText(tick))
	}
	for _, tick := range d.y.tickValues() {
		x, y := d.pixelOf(Point{d.x.from, tick})
		fmt.Fprintf(&d.out, grid, x, y, float64(width-right), y)
		d.drawText(x-8, y+fontSize/3, "end", tickText(tick))
	}
	fmt.Fprintf(&d.out, `<path d="M%d %d V%d H%d" fill="none" stroke="#000000"/>`+"\n", left, top, height-bottom, width-right)
	middle := float64(left+width-right) / 2
	d.drawText(middle, top-16, "middle", l.Title)
	d.drawText(middle, height-14, "middle", l.X)
	fmt.Fprintf(&d.out, `<g transform="translate(18 %.1f) rotate(-90)">`, float64(top+height-bottom)/2)
	d.drawText(0, 0, "middle", l.Y)
	d.out.WriteString("</g>\n")
}

func (d *drawing) drawText(x, y float64, anchor, text string) {
	fmt.Fprintf(&d.out, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(&d.out, []byte(text)) // a buffer takes everything
	d.out.WriteString("</text>\n")
}

func (d *drawing) drawLine(points []Point, number int) {
	if len(points) == 0 {
		return
	}
	var corners strings.Builder
	for _, point := range points {
		x, y := d.pixelOf(point)
		fmt.Fprintf(&corners, "%.1f,%.1f ", x, min(max(y, top), height-bottom))
	}
	fmt.Fprintf(&d.out, `<polyline points="%s" fill="none" %s/>`+"\n", strings.TrimSpace(corners.String()), strokeStyle(number))
}

func strokeStyle(number int) string {
	out := fmt.Sprintf(`stroke="%s" stroke-width="2"`, palette[number%len(palette)])
	if dash := dashes[number%len(dashes)]; dash != "" {
		out += fmt.Sprintf(` stroke-dasharray="%s"`, dash)
	}
	return out
}

func (d *drawing) drawLegend(l *Lines) {
	y, thumb, text, anchor := float64(top+legendLine), float64(left+10), float64(left+10+legendThumb+6), "start"
	if l.Legend == BottomRight {
		y = float64(height - bottom - legendLine*len(l.Lines))
		thumb = width - right - 10 - legendThumb
		text, anchor = thumb-6, "end"
	}
	for i, line := range l.Lines {
		fmt.Fprintf(&d.out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" %s/>`+"\n", thumb, y-fontSize/3, thumb+legendThumb, y-fontSize/3, strokeStyle(i))
		d.drawText(text, y, anchor, line.Name)
		y += legendLine
	}
}

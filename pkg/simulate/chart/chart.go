// Package chart draws the plots of simulations and benchmarks as SVG, which browsers and Markdown show.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
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
	// LogX has the X axis grow by factors. All values must be above 0 then.
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

const (
	width  = 18 * vg.Centimeter
	height = 11 * vg.Centimeter
)

// palette are colours that people with any colour vision tell apart (Okabe and Ito).
var palette = []color.RGBA{
	{R: 0xd5, G: 0x5e, A: 0xff}, {G: 0x72, B: 0xb2, A: 0xff}, {G: 0x9e, B: 0x73, A: 0xff}, {R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	{R: 0xe6, G: 0x9f, A: 0xff}, {R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, {A: 0xff}, {R: 0x99, G: 0x99, B: 0x99, A: 0xff},
}

// dashes tell lines apart in black and white. There are fewer than colours by one, so that no pair returns early.
var dashes = [][]vg.Length{
	nil,
	{vg.Points(6), vg.Points(3)},
	{vg.Points(1.5), vg.Points(2)},
	{vg.Points(8), vg.Points(2), vg.Points(1.5), vg.Points(2)},
	{vg.Points(3), vg.Points(1.5)},
	{vg.Points(10), vg.Points(4)},
	{vg.Points(4), vg.Points(1.5), vg.Points(1), vg.Points(1.5), vg.Points(1), vg.Points(1.5)},
}

// SVG draws the plot.
func (l *Lines) SVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = l.Title, l.X, l.Y
	p.BackgroundColor = color.White
	p.Legend.Left, p.Legend.Top = l.Legend == TopLeft, l.Legend == TopLeft
	p.Legend.Padding, p.Legend.ThumbnailWidth = vg.Points(2), vg.Points(30)
	p.Legend.XOffs, p.Legend.YOffs = vg.Points(6), vg.Points(-6)
	if l.Legend == BottomRight {
		p.Legend.XOffs, p.Legend.YOffs = vg.Points(-6), vg.Points(6)
	}
	p.Add(plotter.NewGrid())
	for i, line := range l.Lines {
		points := make(plotter.XYs, 0, len(line.Points))
		for _, point := range line.Points {
			if point.X >= l.MinX && (!l.LogX || point.X > 0) {
				points = append(points, plotter.XY{X: point.X, Y: point.Y})
			}
		}
		drawn, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", line.Name, err)
		}
		drawn.Color, drawn.Width, drawn.Dashes = palette[i%len(palette)], vg.Points(1.5), dashes[i%len(dashes)]
		p.Add(drawn)
		p.Legend.Add(line.Name, drawn)
	}
	p.X.Min, p.Y.Min = l.MinX, l.MinY
	p.Y.Max = max(p.Y.Max, l.MinY+1) // a line at the bottom needs a scale, too
	if l.Legend == TopLeft && l.crowded(p.X.Max, p.Y.Max) {
		p.Y.Max = l.MinY + 1.25*(p.Y.Max-l.MinY)
	}
	if l.LogX {
		logarithmic(&p.X)
	}
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("drawing %s: %w", l.Title, err)
	}
	return out.Bytes(), nil
}

// crowded reports whether a line runs where the legend stands, for axes that end at maxX and maxY.
func (l *Lines) crowded(maxX, maxY float64) bool {
	for _, line := range l.Lines {
		for _, point := range line.Points {
			if point.X >= l.MinX && point.X < l.MinX+(maxX-l.MinX)/4 && point.Y > l.MinY+3*(maxY-l.MinY)/4 {
				return true
			}
		}
	}
	return false
}

// logarithmic has an axis run from 1 to a power of 10.
func logarithmic(axis *plot.Axis) {
	axis.Min, axis.Max = 1, math.Pow(10, math.Ceil(math.Log10(max(axis.Max, 10))))
	axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
}

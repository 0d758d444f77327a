// Package chart draws the plots of simulations and benchmarks as SVG, which browsers and Markdown show.
package chart

import (
	"bytes"
	"fmt"
	"image/color"

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
	Lines      []Line
}

const (
	width  = 18 * vg.Centimeter
	height = 11 * vg.Centimeter
)

// palette are colours that people with any colour vision tell apart (Okabe and Ito).
var palette = []color.RGBA{
	{R: 0xd5, G: 0x5e, A: 0xff}, {G: 0x72, B: 0xb2, A: 0xff}, {G: 0x9e, B: 0x73, A: 0xff}, {R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	{R: 0xe6, G: 0x9f, A: 0xff}, {R: 0x56, G: 0xb4, B: 0xe9, A: 0xff}, {A: 0xff}, {R: 0x99, G: 0x99, B: 0x99, A: 0xff},
}

// SVG draws the plot.
func (l *Lines) SVG() ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = l.Title, l.X, l.Y
	p.BackgroundColor = color.White
	p.Legend.Left, p.Legend.Top = true, true
	p.Add(plotter.NewGrid())
	for i, line := range l.Lines {
		points := make(plotter.XYs, 0, len(line.Points))
		for _, point := range line.Points {
			if point.X >= l.MinX {
				points = append(points, plotter.XY{X: point.X, Y: point.Y})
			}
		}
		drawn, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", line.Name, err)
		}
		drawn.Color, drawn.Width = palette[i%len(palette)], vg.Points(1.5)
		if i >= len(palette) {
			drawn.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(drawn)
		p.Legend.Add(line.Name, drawn)
	}
	p.X.Min, p.Y.Min = l.MinX, l.MinY
	canvas := vgsvg.New(width, height)
	p.Draw(draw.New(canvas))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("drawing %s: %w", l.Title, err)
	}
	return out.Bytes(), nil
}

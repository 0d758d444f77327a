package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func line(name string, points ...Point) Line { return Line{Name: name, Points: points} }

// TestPlotsAreWhole reads what was drawn as XML, and looks whether all of it is on the page.
func TestPlotsAreWhole(t *testing.T) {
	tests := map[string]struct {
		plot  Lines
		lines int
	}{
		"two lines":                {Lines{Title: "a", Lines: []Line{line("x", Point{0, 0}, Point{100, 50}), line("y", Point{0, 9}, Point{9, 9})}}, 2},
		"no line":                  {Lines{}, 0},
		"a line without points":    {Lines{Lines: []Line{line("x")}}, 0},
		"one point":                {Lines{Lines: []Line{line("x", Point{0, 0})}}, 1},
		"a line at the bottom":     {Lines{MinY: 70, Lines: []Line{line("x", Point{1, 70}, Point{2, 70})}}, 1},
		"values below the axes":    {Lines{MinX: 70, MinY: 70, Lines: []Line{line("x", Point{0, 0}, Point{80, 10}, Point{90, 95})}}, 1},
		"a logarithm":              {Lines{LogX: true, Legend: BottomRight, Lines: []Line{line("x", Point{0, 1}, Point{1, 2}, Point{86400, 3})}}, 1},
		"values that are none":     {Lines{Lines: []Line{line("x", Point{math.NaN(), 1}, Point{1, math.Inf(1)}, Point{1, 1})}}, 1},
		"many lines":               {Lines{Lines: slicesOf(20)}, 20},
		"names that look like XML": {Lines{Title: `<script>"&`, X: "</svg>", Lines: []Line{line("]]><b>", Point{1, 1})}}, 1},
		"very large values":        {Lines{Lines: []Line{line("x", Point{1e12, 1e15})}}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var lines int
			decoder := xml.NewDecoder(bytes.NewReader(test.plot.SVG()))
			for {
				token, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				start, ok := token.(xml.StartElement)
				if !ok {
					continue
				}
				if start.Name.Local == "script" || start.Name.Local == "b" {
					t.Errorf("a name has become an element: %v", start)
				}
				for _, attribute := range start.Attr {
					if attribute.Name.Local == "points" {
						lines++
						onThePage(t, attribute.Value)
					}
				}
			}
			if lines != test.lines {
				t.Errorf("%d lines are drawn, want %d", lines, test.lines)
			}
		})
	}
}

func slicesOf(count int) []Line {
	var out []Line
	for i := range count {
		out = append(out, line(strconv.Itoa(i), Point{0, float64(i)}, Point{1, 1}))
	}
	return out
}

func onThePage(t *testing.T, points string) {
	t.Helper()
	for point := range strings.FieldsSeq(points) {
		x, y, _ := strings.Cut(point, ",")
		across, err := strconv.ParseFloat(x, 64)
		down, err2 := strconv.ParseFloat(y, 64)
		if err != nil || err2 != nil || across < left || across > width-right || down < top || down > height-bottom {
			t.Errorf("the point %s is off the axes", point)
		}
	}
}

func TestTicksAreRound(t *testing.T) {
	tests := map[string]struct {
		axis axis
		want []string
	}{
		"percents":        {axis{from: 0, to: 100}, []string{"0", "20", "40", "60", "80", "100"}},
		"from 70 on":      {axis{from: 70, to: 100}, []string{"70", "75", "80", "85", "90", "95", "100"}},
		"an odd end":      {axis{from: 0, to: 37.3}, []string{"0", "10", "20", "30"}},
		"fractions":       {axis{from: 0, to: 1}, []string{"0", "0.2", "0.4", "0.6", "0.8", "1"}},
		"seconds, by ten": {axis{from: 1, to: 100000, log: true}, []string{"1", "10", "100", "1000", "10000", "100000"}},
		"thousands":       {axis{from: 0, to: 12345}, []string{"0", "2000", "4000", "6000", "8000", "10000", "12000"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, tick := range test.axis.tickValues() {
				got = append(got, tickText(tick))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("ticks (-want +got):\n%s", diff)
			}
		})
	}
}

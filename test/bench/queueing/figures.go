package queueing

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Figure is one number that somebody else has measured on the same trace.
type Figure struct {
	Nodes  int
	Policy string
	// Name is a key of figures.
	Name  string
	Value float64
}

// figures are the metrics that can be compared, by the name that a file of figures uses. Times are in hours.
var figures = map[string]func(m *Metrics) float64{
	"delay avg":      func(m *Metrics) float64 { return m.Delay.Avg },
	"delay p99":      func(m *Metrics) float64 { return m.Delay.P99 },
	"delay max":      func(m *Metrics) float64 { return m.Delay.Max },
	"delay avg >=8":  func(m *Metrics) float64 { return m.DelayBySize[">=8"].Avg },
	"delay p99 >=8":  func(m *Metrics) float64 { return m.DelayBySize[">=8"].P99 },
	"delay avg >8":   func(m *Metrics) float64 { return m.DelayBySize[">8"].Avg },
	"delay p99 >8":   func(m *Metrics) float64 { return m.DelayBySize[">8"].P99 },
	"completion avg": func(m *Metrics) float64 { return m.Completion.Avg },
	"held percent":   func(m *Metrics) float64 { return m.HeldPercent },
	"deadlocks":      func(m *Metrics) float64 { return float64(m.Deadlocks) },
}

// Of is the same figure of a report.
func (f Figure) Of(r Report) float64 { return figures[f.Name](&r.Metrics) }

var figureColumns = []string{"nodes", "policy", "figure", "value"}

// ReadFigures reads a CSV file with the columns nodes, policy, figure and value. Lines that start with # are comments.
// An error names the line.
func ReadFigures(r io.Reader) ([]Figure, error) {
	rows := csv.NewReader(r)
	rows.Comment = '#'
	header, err := rows.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the figures: %w", err)
	}
	if !slices.Equal(header, figureColumns) {
		return nil, fmt.Errorf("reading the figures: the columns are %q, want %q", header, figureColumns)
	}
	var read []Figure
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return read, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the figures: %w", err)
		}
		figure, err := parseFigure(row)
		if err != nil {
			line, _ := rows.FieldPos(0)
			return nil, fmt.Errorf("reading the figures: line %d: %w", line, err)
		}
		read = append(read, figure)
	}
}

func parseFigure(row []string) (Figure, error) {
	nodes, err := strconv.Atoi(row[0])
	if err != nil || nodes < 1 {
		return Figure{}, fmt.Errorf("nodes %q: want a whole number, 1 or more", row[0])
	}
	if _, err := Select(row[1:2]); err != nil {
		return Figure{}, err
	}
	if figures[row[2]] == nil {
		known := slices.Sorted(maps.Keys(figures))
		return Figure{}, fmt.Errorf("figure %q is unknown: use %s", row[2], strings.Join(known, ", "))
	}
	value, err := strconv.ParseFloat(row[3], 64)
	if err != nil {
		return Figure{}, fmt.Errorf("value %q: want a number", row[3])
	}
	return Figure{Nodes: nodes, Policy: row[1], Name: row[2], Value: value}, nil
}

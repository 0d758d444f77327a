package main

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNoCellIsFarAboveStock measures a few cells of a small cluster, and fails on a loss far outside of noise.
func TestNoCellIsFarAboveStock(t *testing.T) {
	o := options{root: filepath.FromSlash("../../../.."), rounds: 1}
	small := with(func(a *axes) { a.nodes, a.pools, a.shapes = 600, 1, 128 })
	l := map[hosts]*lab{}
	for name, most := range map[string]float64{
		"1 GPU": 1.5, "8 GPUs": 1.5, "shared GPU": 1.5, "MIG slice": 1.5, "inference replicas": 2, "required affinity": 1.5,
		"no GPU": 2, "no GPU, nodes without": 2,
	} {
		t.Run(name, func(t *testing.T) {
			r := rowNamed(t, name)
			if l[r.hosts] == nil {
				var err error
				if l[r.hosts], err = newLab(t.Context(), &small, r.hosts, o.comparedSetups()); err != nil {
					t.Fatal(err)
				}
			}
			found, err := l[r.hosts].measure(t.Context(), r, o.rounds)
			if err != nil {
				t.Fatal(err)
			}
			ratio, _, _ := found.ratio()
			t.Logf("ours %.0f µs, stock %.0f: %.2f", found.Ours[0], found.Stock[0], ratio)
			if ratio > most {
				t.Errorf("a pod takes %.2f times the CPU that it takes with stock, more than %.1f", ratio, most)
			}
		})
	}
}

func rowNamed(t *testing.T, name string) *row {
	t.Helper()
	for i := range rows {
		if rows[i].name == name {
			return &rows[i]
		}
	}
	t.Fatalf("there is no row %q", name)
	return nil
}

// TestEveryRowCanBePlaced has the schedulers place, or refuse, pods of each row.
func TestEveryRowCanBePlaced(t *testing.T) {
	o := options{root: filepath.FromSlash("../../../.."), rounds: 1}
	for name, s := range map[string]state{"half": half, "full": full} {
		t.Run(name, func(t *testing.T) {
			a := with(func(a *axes) { a.nodes, a.pools, a.asked, a.shapes, a.uneven, a.state = 160, 4, 2, 0, true, s })
			for _, kind := range []hosts{whole, shared, sliced, mixed} {
				l, err := newLab(t.Context(), &a, kind, o.comparedSetups())
				if err != nil {
					t.Fatal(err)
				}
				for i := range rows {
					if rows[i].hosts != kind || !rows[i].comparable(&a) {
						continue
					}
					if _, err := l.turn(t.Context(), l.ours, &rows[i], i*1000, true); err != nil {
						t.Errorf("%s, ours: %v", rows[i].name, err)
					}
					if _, err := l.turn(t.Context(), l.stock, &rows[i], i*1000, true); err != nil {
						t.Errorf("%s, stock: %v", rows[i].name, err)
					}
					if _, err := l.turn(t.Context(), l.batching, &rows[i], i*1000, true); err != nil {
						t.Errorf("%s, stock with batching: %v", rows[i].name, err)
					}
				}
			}
		})
	}
}

func TestThePageHasEachCell(t *testing.T) {
	f := figures{}
	f.put(cell{Row: rows[0].name, Column: columns[1].name, Ours: []float64{300, 100, 200}, Stock: []float64{400, 400, 400}})
	f.put(cell{Row: rows[0].name, Column: columns[0].name, Ours: []float64{1}, Stock: []float64{9}})
	f.put(cell{Row: rows[0].name, Column: columns[0].name, Ours: []float64{8000}, Stock: []float64{400}, Batching: []float64{50}})
	text := f.markdown()
	for _, want := range []string{
		"| 1 GPU | 200 | 400 | 0.50 | 0.25 – 0.75 | – |\n", "| 1 GPU | 8000 | 400 | 20.00 | 20.00 – 20.00 | 50 |\n",
		"5000 nodes, 1250 in each pool and type; equal hosts; one request; 0 % of the GPUs in use.",
		"The median of 2 cells is 10.25 × stock, the highest 20.00; in 1 cells a pod costs more than with stock in every round, and in 1 more than with stock's batching.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	drawn := f.heatMap()
	decoder := xml.NewDecoder(strings.NewReader(drawn))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the heat map is no XML: %v", err)
		}
	}
	for _, want := range []string{">0.50</text>", ">20</text>", "#e15a50"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("no %q in the heat map", want)
		}
	}
}

func TestPartsAreAdded(t *testing.T) {
	dir := t.TempDir()
	f, err := readFigures(filepath.Join(dir, "matrix.json"))
	if err != nil {
		t.Fatal(err)
	}
	f.put(cell{Row: rows[0].name, Column: columns[0].name, Ours: []float64{1}, Stock: []float64{2}})
	if err := f.save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := readFigures(filepath.Join(dir, "matrix.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f, again); diff != "" {
		t.Errorf("what was read again (-want +got):\n%s", diff)
	}
}

func TestOptionsThatMeasureNothing(t *testing.T) {
	for _, args := range [][]string{{"--rounds", "0"}, {"--rows", "("}, {"--columns", "["}, {"--unknown"}, {"--add", "--out", ""}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

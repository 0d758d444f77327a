package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestTheSizesDifferInNodesAlone(t *testing.T) {
	var nodes []int
	for _, column := range sizes() {
		a := column.axes
		nodes = append(nodes, a.nodes)
		if a.types != 1 || a.shapes != 1 || a.state.share() != half.share() {
			t.Errorf("column %s differs in more than nodes: %+v", column.name, a)
		}
	}
	if len(nodes) != 4 || nodes[0] != 1000 || nodes[3] != 50_000 {
		t.Errorf("sizes %v, want 1,000 to 50,000 nodes", nodes)
	}
}

// TestASizeIsMeasured on a small cluster: each figure is there, and the page has it.
func TestASizeIsMeasured(t *testing.T) {
	o := options{root: filepath.FromSlash("../../../..")}
	a := with(func(a *axes) { a.nodes = 100 })
	s, err := o.measureSize(t.Context(), &a)
	if err != nil {
		t.Fatal(err)
	}
	if s.Nodes != 100 || s.Pods == 0 || min(s.Ours, s.Stock, s.StoodBy, s.Reading) <= 0 || min(s.Objects, s.OursHeap, s.StockHeap) <= 0 {
		t.Errorf("%+v has figures missing", s)
	}
	f := figures{Sizes: []size{s}}
	if text := f.scale(); !strings.Contains(text, "| 100 | ") || !strings.Contains(text, "| 1 GPU | – |") {
		t.Errorf("the page is\n%s", text)
	}
}

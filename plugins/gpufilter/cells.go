package gpufilter

import (
	"strings"
	"sync/atomic"

	"g8s.host/gpu-scheduler/pkg/shortlist"
)

// indexUpdates counts the updates of indices of nodes. It is one for all informers of the process, since an index
// function knows nothing but its object; a count too many costs a comparison.
var indexUpdates atomic.Uint64

// maxCells bounds the cells that are remembered. Pods may name types in any combination and order.
const maxCells = 1024

// cells remembers the nodes of pools and types. An informer counts an update before anybody can read the index as it is
// after that, so what is remembered is never older than the count it carries. It is used by one goroutine.
type cells struct {
	index nodeIndex
	known map[string]remembered
}

// remembered is a cell and the count of updates at which it was found to be right.
type remembered struct {
	cell *shortlist.Cell
	at   uint64
}

// of returns the nodes in pool that carry one of types, as nodeIndex.candidates does. While they are the same nodes,
// it is the same cell.
func (c *cells) of(pool string, types []string) (*shortlist.Cell, error) {
	key := indexKey(pool, strings.Join(types, ","))
	last, now := c.known[key], indexUpdates.Load()
	if last.cell != nil && last.at == now {
		return last.cell, nil
	}
	names, err := c.index.candidates(pool, types)
	if err != nil {
		return nil, err
	}
	next := remembered{cell: last.cell, at: now}
	if next.cell == nil || !next.cell.Names.Equal(names) {
		next.cell = &shortlist.Cell{Key: key, Names: names}
	}
	if c.known == nil || len(c.known) >= maxCells {
		c.known = map[string]remembered{}
	}
	c.known[key] = next
	return next.cell, nil
}

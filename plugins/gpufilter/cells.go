package gpufilter

import (
	"slices"
	"strings"
	"sync/atomic"

	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
)

// indexUpdates counts the updates of indices of nodes. It is one for all informers of the process, since an index
// function knows nothing but its object; a count too many costs a comparison.
var indexUpdates atomic.Uint64

// maxWeight bounds what is remembered, by the names of nodes that it holds. Each weighs some 45 bytes, so that is about
// 12 MiB. Pods may name any pool and any 32 types, so cells are as many as a user likes; a pool of 5,000 nodes has room for
// 50 of them.
const maxWeight = 1 << 18

// cells remembers the nodes of pools and types. An informer counts an update before anybody can read the index as it is
// after that, so what is remembered is never older than the count it carries. It is used by one goroutine.
//
// What is remembered is in two halves: what was asked for lately, and what was before that. When the first half is full it
// takes the place of the second, so that cells which many pods ask for outlive those of a user who asks for all there could be.
type cells struct {
	index        nodeIndex
	lately, past map[string]remembered
	weight       int // of lately
}

// remembered is a cell and the count of updates at which it was found to be right.
type remembered struct {
	cell *shortlist.Cell
	at   uint64
}

// weight is that of a cell in memory, in names of nodes. The key of one without nodes can outweigh it.
func weight(cell *shortlist.Cell) int { return 1 + cell.Names.Len() + len(cell.Key)/32 }

// of returns the nodes in pool that carry one of types, as nodeIndex.candidates does. While they are the same nodes,
// it is the same cell.
func (c *cells) of(pool string, types []string) (*shortlist.Cell, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(types))) // in whichever order they are named, they are the same nodes
	key := indexKey(pool, strings.Join(sorted, ","))
	last, now := c.recall(key), indexUpdates.Load()
	if last.cell != nil && last.at == now {
		return last.cell, nil
	}
	names, err := c.index.candidates(pool, sorted)
	if err != nil {
		return nil, err
	}
	if last.cell == nil || !last.cell.Names.Equal(names) {
		last.cell = &shortlist.Cell{Key: key, Names: names}
	}
	c.remember(key, remembered{cell: last.cell, at: now})
	return last.cell, nil
}

// recall returns what is remembered of a key. What is recalled from the past was asked for lately.
func (c *cells) recall(key string) remembered {
	if known, ok := c.lately[key]; ok {
		return known
	}
	known, ok := c.past[key]
	if ok {
		delete(c.past, key)
		c.remember(key, known)
	}
	return known
}

func (c *cells) remember(key string, known remembered) {
	if before, ok := c.lately[key]; ok {
		c.weight -= weight(before.cell)
	} else if c.lately == nil || c.weight+weight(known.cell) > maxWeight/2 {
		c.past, c.lately, c.weight = c.lately, map[string]remembered{}, 0
	}
	c.lately[key] = known
	c.weight += weight(known.cell)
}

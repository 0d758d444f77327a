package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/test/bench/load/cycle"
)

// poolSize is how many nodes a pool has where clusters of several sizes are compared, and pods come to as many pools in each.
const poolSize = 250

// sizes are the columns that differ in the number of nodes alone.
func sizes() []*column {
	var found []*column
	for i := range columns {
		if a := &columns[i].axes; a.nodes == a.pools*poolSize && a.askedPools() == 4 && !a.uneven {
			found = append(found, &columns[i])
		}
	}
	slices.SortFunc(found, func(a, b *column) int { return a.axes.nodes - b.axes.nodes })
	return found
}

// size is what a cluster of some nodes costs beside what a pod does.
type size struct {
	Nodes, Pods int
	// Objects is what the nodes and pods take as objects, OursHeap and StockHeap what a scheduler holds beside them after its first pod, in MiB.
	Objects, OursHeap, StockHeap float64
	// Ours and Stock are the first attempt of a process that leads at once, StoodBy that of one of ours that has stood by, in seconds of CPU.
	Ours, Stock, StoodBy float64
	// Reading is what standing by costs once, and Resting what it costs each second in which nothing happens, in seconds of CPU.
	Reading, Resting float64
}

// measureScale adds what clusters of several sizes cost to what is known.
func (o *options) measureScale(ctx context.Context, known *figures, progress io.Writer) error {
	for _, column := range sizes() {
		if !o.columns.MatchString(column.name) {
			continue
		}
		s, err := o.measureSize(ctx, &column.axes)
		if err != nil {
			return fmt.Errorf("column %q: %w", column.name, err)
		}
		known.Sizes = append(slices.DeleteFunc(known.Sizes, func(other size) bool { return other.Nodes == s.Nodes }), s)
		fmt.Fprintf(progress, "%6d nodes: first attempt: ours %.2f s, stood by %.2f s, stock %.2f s; heap: objects %.0f MiB, ours %.0f MiB, stock %.0f MiB\n",
			s.Nodes, s.Ours, s.StoodBy, s.Stock, s.Objects, s.OursHeap, s.StockHeap)
	}
	slices.SortFunc(known.Sizes, func(a, b size) int { return a.Nodes - b.Nodes })
	return nil
}

func (o *options) measureSize(ctx context.Context, a *axes) (size, error) {
	empty := heap()
	world, err := a.world(whole)
	if err != nil {
		return size{}, err
	}
	s := size{Nodes: len(world.Nodes), Pods: len(world.Pods), Objects: heap() - empty}
	compared := o.comparedSetups()
	if s.Ours, s.OursHeap, err = a.firstAttempt(ctx, world, compared.ours); err != nil {
		return s, fmt.Errorf("ours: %w", err)
	}
	if s.Stock, s.StockHeap, err = a.firstAttempt(ctx, world, compared.stock); err != nil {
		return s, fmt.Errorf("stock: %w", err)
	}
	s.StoodBy, _, err = a.firstAttempt(ctx, world, compared.ours, func(c *cycle.Cluster) {
		read := c.StandBy()
		s.Reading = cpuSeconds(func() { read(ctx) })
		s.Resting = cpuSeconds(func() {
			for range restSeconds {
				read(ctx)
			}
		}) / restSeconds
	})
	if err != nil {
		return s, fmt.Errorf("ours, which stood by: %w", err)
	}
	runtime.KeepAlive(world)
	return s, nil
}

// restSeconds is how many seconds a standby is watched in which nothing happens.
const restSeconds = 100

// firstAttempt returns what the first attempt of a new process takes, in seconds of CPU, and the heap that the process then holds, in MiB,
// without the objects of the world.
func (a *axes) firstAttempt(ctx context.Context, world *cycle.World, setup cycle.Setup, before ...func(*cycle.Cluster)) (seconds, held float64, err error) {
	ctx, done := context.WithCancel(ctx) // ends the scheduler
	defer done()
	empty := heap()
	c, err := cycle.New(ctx, world, setup)
	if err != nil {
		return 0, 0, err
	}
	for _, do := range before {
		do(c)
	}
	l, pod := &lab{axes: a}, &rows[0]
	seconds = cpuSeconds(func() { err = l.try(ctx, c, pod, l.batch(pod, 0, 1)) })
	held = heap() - empty
	runtime.KeepAlive(c)
	return seconds, held, err
}

// heap is what lives on it, in MiB.
func heap() float64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first has finalizers of
	runtime.ReadMemStats(&stats)
	return float64(stats.HeapAlloc) / (1 << 20)
}

func cpuSeconds(do func()) float64 {
	runtime.GC() // what came before is not to be cleared away on this account
	began := cycle.CPUTime()
	do()
	return (cycle.CPUTime() - began).Seconds()
}

// scale are the tables of what grows with the cluster.
func (f *figures) scale() string {
	if len(f.Sizes) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n## Scale\n\nPools have 250 nodes, 8 GPUs each, and pods come to four of the pools: what grows is the rest of the cluster.\n\n")
	b.WriteString("| nodes | pods | first attempt, ours | after standing by | stock | reading as a standby | a second at rest | objects | heap beside them, ours | stock |\n" +
		"|---|---|---|---|---|---|---|---|---|---|\n")
	for _, s := range f.Sizes {
		fmt.Fprintf(&b, "| %d | %d | %.2f s | %.2f s | %.2f s | %.2f s | %.1f ms | %.0f MiB | %.0f MiB | %.0f MiB |\n", s.Nodes, s.Pods,
			s.Ours, s.StoodBy, s.Stock, s.Reading, 1000*s.Resting, s.Objects, s.OursHeap, s.StockHeap)
	}
	b.WriteString("\nA pod, ours / stock, in µs of CPU:\n\n| pods |")
	columns := sizes()
	for _, column := range columns {
		fmt.Fprintf(&b, " %d nodes |", column.axes.nodes)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for i := range rows {
		fmt.Fprintf(&b, "| %s |", rows[i].name)
		for _, column := range columns {
			if c := f.cell(rows[i].name, column.name); c != nil {
				fmt.Fprintf(&b, " %.0f / %.0f |", middleOf(c.Ours), middleOf(c.Stock))
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

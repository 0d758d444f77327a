package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"g8s.host/gpu-scheduler/cli/screen"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/queue"
)

// feed is what a reader has found out last, and what keeps it from finding out more.
type feed[T any] struct {
	changes *atomic.Int64

	mu      sync.Mutex
	value   T
	read    time.Time
	watched bool
	trouble string
}

func newFeed[T any](changes *atomic.Int64) *feed[T] { return &feed[T]{changes: changes} }

// report takes what was read. What is watched stays true until something else comes, or trouble.
func (f *feed[T]) report(value T, now time.Time, watched bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value, f.read, f.watched, f.trouble = value, now, watched, ""
	f.changes.Add(1)
}

// fail takes why nothing more can be read, "" when it can again.
func (f *feed[T]) fail(trouble string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.trouble == "" && f.watched {
		f.read = now
	}
	f.trouble = trouble
	f.changes.Add(1)
}

// look returns what was read, and since when it may have changed.
func (f *feed[T]) look(now time.Time) (value T, read time.Time, trouble string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watched && f.trouble == "" {
		return f.value, now, ""
	}
	return f.value, f.read, f.trouble
}

// troubled is the side of a feed that is the same for all.
type troubled interface {
	fail(trouble string, now time.Time)
}

// uiRetry is how long a reader waits after an error.
const uiRetry = 5 * time.Second

// keep reads for as long as ctx lasts: after an error, and after a silence of the cluster, it begins again.
func (u *ui) keep(ctx context.Context, f troubled, read func(context.Context) error) {
	say := func(text string) { f.fail(text, u.factory.Now()) }
	for ctx.Err() == nil {
		lost := func(string) { say("The cluster does not answer; trying again") } // for as long as it takes
		err := newHeartbeat(u.client, lost, func() { say("") }).over(ctx, read)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			text, _, _ := strings.Cut(message(err).In(u.factory.language()), "\n")
			say(oneLine(text))
		}
		select {
		case <-ctx.Done():
		case <-time.After(uiRetry):
		}
	}
}

// show begins to read the view that the screen shows. Nodes and pools are read all the time, for the head.
func (u *ui) show() {
	u.endView()
	ctx, end := context.WithCancel(u.ctx)
	u.endView = end
	namespace := u.namespace
	if u.state.All() {
		namespace = ""
	}
	switch u.state.View() {
	case screen.Jobs:
		u.jobs = newFeed[[]inventory.Job](&u.changes)
		jobs := u.jobs
		u.start(func() {
			u.keep(ctx, jobs, func(ctx context.Context) error {
				return u.reader.WatchJobs(ctx, inventory.JobQuery{Namespace: namespace}, func(all []inventory.Job) {
					jobs.report(all, u.factory.Now(), true)
				})
			})
		})
	case screen.Queue:
		if u.queue == nil { // else it goes on where it was, after a page
			u.queue = newFeed[waitingLine](&u.changes)
		}
		line := u.queue
		u.start(func() {
			u.keep(ctx, line, func(ctx context.Context) error { return u.pollQueue(ctx, line, namespace) })
		})
	}
}

// waitingLine is what the queue shows.
type waitingLine struct {
	entries []queue.Entry
	warning string
}

// uiQueuePoll is how often the queue is read again, which lists all pods: a screen may stay open over night.
const uiQueuePoll = 10 * time.Second

// pollQueue reads the queue as queue -w does, less often.
func (u *ui) pollQueue(ctx context.Context, line *feed[waitingLine], namespace string) error {
	o := queueOptions{allNamespaces: namespace == ""}
	once := func() error {
		read, err := queue.Read(ctx, u.client, u.namespace, u.factory.Now())
		if err == nil {
			line.report(waitingLine{o.filter(read.Entries, namespace), incomplete(read, u.namespace)}, u.factory.Now(), false)
		}
		return err
	}
	if err := once(); err != nil {
		return err
	}
	return polling(ctx, uiQueuePoll, once)
}

func (u *ui) watchFleet(ctx context.Context) error {
	return u.reader.WatchFleet(ctx, func(cluster inventory.Cluster) { u.fleet.report(cluster, u.factory.Now(), true) })
}

// reading is what there is to show now: the table of the view, which is made when it is asked for, and the head.
func (u *ui) reading() (func() screen.Table, screen.Head) {
	now := u.factory.Now()
	cluster, read, trouble := u.fleet.look(now)
	head := screen.Head{Context: oneLine(u.context), Namespace: oneLine(u.namespace), GPUs: freeGPUs(cluster.Pools), Read: read, Trouble: trouble}
	var table func() screen.Table
	switch u.state.View() {
	case screen.Jobs:
		var jobs []inventory.Job
		jobs, head.Read, head.Trouble = u.jobs.look(now)
		table = func() screen.Table {
			return uiTable(u, jobs, jobColumns(now, u.state.All()), "No jobs found.", func(j inventory.Job) screen.Row {
				return screen.Row{Kind: j.Kind, Namespace: j.Namespace, Name: j.Name}
			})
		}
	case screen.Queue:
		var line waitingLine
		line, head.Read, head.Trouble = u.queue.look(now)
		table = func() screen.Table {
			out := uiTable(u, line.entries, queueColumns(now, u.state.All()), "No job waits for GPUs.", func(e queue.Entry) screen.Row {
				return screen.Row{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
			})
			if line.warning != "" {
				out.Note = strings.TrimSpace(out.Note + " " + line.warning)
			}
			return out
		}
	case screen.Nodes:
		table = func() screen.Table {
			return uiTable(u, cluster.Nodes, nodeColumns(), "No nodes found.", func(n inventory.Node) screen.Row { return screen.Row{Name: n.Name} })
		}
	case screen.Pools:
		table = func() screen.Table {
			return uiTable(u, cluster.Pools, poolColumns(), "No pools found.", func(p inventory.Pool) screen.Row { return screen.Row{Name: p.Name} })
		}
	}
	if head.Read.IsZero() {
		table = func() screen.Table { return screen.Table{} }
	}
	return table, head
}

// uiTable is the table that get prints, for the width of the screen.
func uiTable[T any](u *ui, rows []T, columns []column[T], none string, about func(T) screen.Row) screen.Table {
	if len(rows) == 0 {
		return screen.Table{Note: none}
	}
	texts := tableRows(rows, columns, tableStyle{color: u.factory.IO.Color, width: u.state.Width()})
	out := screen.Table{Header: texts[0], Rows: make([]screen.Row, len(rows))}
	for i, row := range rows {
		out.Rows[i] = about(row)
		out.Rows[i].Text = texts[i+1]
	}
	return out
}

// freeGPUs sums up the pools in a line.
func freeGPUs(pools []inventory.Pool) string {
	out := make([]string, len(pools))
	for i, pool := range pools {
		out[i] = fmt.Sprintf("%s %d/%d", oneLine(pool.Name), pool.GPUs.Free, pool.GPUs.Allocatable)
	}
	return strings.Join(out, " · ")
}

// pageText gathers what a command prints, as lines; of much it keeps the end.
type pageText struct {
	changes *atomic.Int64

	mu   sync.Mutex
	all  []string
	part string
}

const (
	// pageLines is how many lines of a text are kept, and pageLine how many bytes of a line.
	pageLines = 5000
	pageLine  = 4 << 10
)

// Write implements io.Writer.
func (t *pageText) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.part += string(data)
	for {
		line, rest, whole := strings.Cut(t.part, "\n")
		if len(line) > pageLine {
			line, rest, whole = t.part[:pageLine], t.part[pageLine:], true
		}
		if !whole {
			break
		}
		t.all, t.part = append(t.all, line), rest
	}
	if len(t.all) > 2*pageLines { // not at every line: what stays is copied
		t.all = slices.Clone(t.all[len(t.all)-pageLines:])
	}
	t.changes.Add(1)
	return len(data), nil
}

// lines are those that are kept.
func (t *pageText) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := slices.Clone(t.all[max(0, len(t.all)-pageLines):])
	if t.part != "" {
		out = append(out, t.part)
	}
	return out
}

package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/cli/screen"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/queue"
)

// feed holds the latest value that a reader has read, and the error that keeps it from reading more.
type feed[T any] struct {
	changes *atomic.Int64

	mu    sync.Mutex
	value T
	// read is when the value was last known to be current; a live value is current until the next report.
	read    time.Time
	live    bool
	trouble string
}

func newFeed[T any](changes *atomic.Int64) *feed[T] { return &feed[T]{changes: changes} }

// reportValue stores a value and clears the error. A live value stays current until the next report or error.
func (f *feed[T]) reportValue(value T, now time.Time, live bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value, f.read, f.live, f.trouble = value, now, live, ""
	f.changes.Add(1)
}

// reportInitial stores a value that was read before its watch was established: the error of the watch may persist.
func (f *feed[T]) reportInitial(value T, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.value, f.read, f.live = value, now, false
	f.changes.Add(1)
}

// reportFailure stores why nothing more can be read, and since when, until the next report.
func (f *feed[T]) reportFailure(trouble string, since time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live && since.After(f.read) { // otherwise the value was reported later
		f.read = since
	}
	f.live, f.trouble = false, trouble
	f.changes.Add(1)
}

// isHealthy reports whether there is no error.
func (f *feed[T]) isHealthy() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble == ""
}

// latestValue returns the value, and since when it may be outdated.
func (f *feed[T]) latestValue(now time.Time) (value T, read time.Time, trouble string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.live {
		return f.value, now, ""
	}
	return f.value, f.read, f.trouble
}

// newWatchHandler returns a handler for a watch: the first value is the initial list, later ones are live.
func (f *feed[T]) newWatchHandler(now func() time.Time) func(T) {
	stands := false
	return func(value T) {
		if !stands {
			stands = true
			f.reportInitial(value, now())
			return
		}
		f.reportValue(value, now(), true)
	}
}

// healthReporter is the part of a feed that does not depend on its type.
type healthReporter interface {
	reportFailure(trouble string, since time.Time)
	isHealthy() bool
}

// uiRetry is the backoff of a reader after errors. Jitter matters: all clients lose a cluster at the same moment.
var uiRetry = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.5, Steps: 10, Cap: time.Minute}

// readContinuously reads until ctx ends. It restarts after errors, and after a silence of the cluster.
func (u *ui) readContinuously(ctx context.Context, f healthReporter, read func(context.Context, *inventory.Reader) error) {
	fail := func(err error) { f.reportFailure(u.factory.oneLineError(err), u.factory.Now()) }
	reader := u.reader.WithLostHandler(func(err error) {
		if err != nil { // nil was already reported
			fail(err)
		}
	})
	silent := func(_ phrase.Text, silent time.Duration) { // unlimited
		f.reportFailure(phrase.Textf("The cluster does not answer; trying again").Localize(u.language), u.factory.Now().Add(-silent))
	}
	delays := uiRetry
	for ctx.Err() == nil {
		inner, again := context.WithCancel(ctx)
		// A watch may have missed changes during the silence, so it restarts when the cluster is back.
		err := newHeartbeat(u.client, silent, again).guardWatch(inner, func(ctx context.Context) error { return read(ctx, reader) })
		back := inner.Err() != nil
		again()
		if ctx.Err() != nil {
			return
		}
		if back || f.isHealthy() {
			delays = uiRetry
		}
		if err != nil && !back {
			fail(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(delays.Step()):
		}
	}
}

// startView starts to read the view on the screen. Nodes and pools are always read, for the head.
func (u *ui) startView() {
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
		u.startReader(func() {
			u.readContinuously(ctx, jobs, func(ctx context.Context, reader *inventory.Reader) error {
				return reader.WatchJobs(ctx, inventory.JobQuery{Namespace: namespace, Foreign: true}, jobs.newWatchHandler(u.factory.Now))
			})
		})
	case screen.Queue:
		if u.queue == nil { // otherwise it continues after a page was closed
			u.queue = newFeed[waitingLine](&u.changes)
		}
		line := u.queue
		u.startReader(func() {
			u.readContinuously(ctx, line, func(ctx context.Context, _ *inventory.Reader) error { return u.pollQueue(ctx, line, namespace) })
		})
	}
}

// waitingLine is the content of the queue view.
type waitingLine struct {
	entries []queue.Entry
	warning phrase.Text
}

// uiQueuePoll is the interval between two reads of the queue, which lists all pods: a screen may stay open overnight.
const uiQueuePoll = 10 * time.Second

// pollQueue reads the queue as queue -w does, less often.
func (u *ui) pollQueue(ctx context.Context, line *feed[waitingLine], namespace string) error {
	o := queueOptions{allNamespaces: namespace == ""}
	past, _ := o.ledger.runHistory(ctx, u.factory) // gpuctl queue says why there is none
	foreseen := queue.NewEstimateCache(past)
	once := func() error {
		read, err := queue.Read(ctx, u.client, u.namespace, foreseen, u.factory.Now())
		if err == nil {
			line.reportValue(waitingLine{o.filterEntries(read.Entries, namespace), unreadWarning(read, u.namespace)}, u.factory.Now(), false)
		}
		return err
	}
	if err := once(); err != nil {
		return err
	}
	return pollUntilDone(ctx, uiQueuePoll, once)
}

func (u *ui) watchFleet(ctx context.Context, reader *inventory.Reader) error {
	return reader.WatchFleet(ctx, u.fleet.newWatchHandler(u.factory.Now))
}

// currentTable returns what to show now: the head, and a function that builds the table of the view.
func (u *ui) currentTable() (func() screen.Table, screen.Head) {
	now := u.factory.Now()
	cluster, read, trouble := u.fleet.latestValue(now)
	head := screen.Head{Context: oneLine(u.context), Namespace: oneLine(u.namespace), GPUs: freeGPUs(cluster.Pools), Read: read, Trouble: trouble}
	if len(head.GPUs) > 0 && trouble != "" { // the current view may show other data without an error
		head.GPUsRead = read
	}
	var table func() screen.Table
	switch u.state.View() {
	case screen.Jobs:
		var jobs []inventory.Job
		jobs, head.Read, head.Trouble = u.jobs.latestValue(now)
		table = func() screen.Table {
			return uiTable(u, jobs, jobColumns(now, u.state.All()), phrase.Textf("No jobs found."), func(j inventory.Job) screen.Row {
				return screen.Row{Kind: j.Kind, Namespace: j.Namespace, Name: j.Name}
			})
		}
	case screen.Queue:
		var line waitingLine
		line, head.Read, head.Trouble = u.queue.latestValue(now)
		table = func() screen.Table {
			out := uiTable(u, line.entries, queueColumns(now, u.state.All()), phrase.Textf("No job waits for GPUs."), func(e queue.Entry) screen.Row {
				return screen.Row{Kind: e.Kind, Namespace: e.Namespace, Name: e.Name}
			})
			if len(line.warning) > 0 {
				out.Note = strings.TrimSpace(out.Note + " " + line.warning.Localize(u.language))
			}
			return out
		}
	case screen.Nodes:
		table = func() screen.Table {
			return uiTable(u, cluster.Nodes, nodeColumns(), phrase.Textf("No nodes found."), func(n inventory.Node) screen.Row { return screen.Row{Name: n.Name} })
		}
	case screen.Pools:
		table = func() screen.Table {
			return uiTable(u, cluster.Pools, poolColumns(), phrase.Textf("No pools found."), func(p inventory.Pool) screen.Row { return screen.Row{Name: p.Name} })
		}
	}
	if head.Read.IsZero() {
		table = func() screen.Table { return screen.Table{} }
	}
	return table, head
}

// uiTable builds the table that get prints, for the width of the screen.
func uiTable[T any](u *ui, rows []T, columns []column[T], none phrase.Text, about func(T) screen.Row) screen.Table {
	if len(rows) == 0 {
		return screen.Table{Note: none.Localize(u.language)}
	}
	texts := tableRows(rows, columns, tableStyle{color: u.factory.IO.Color, width: u.state.Width(), fits: true, language: u.language})
	out := screen.Table{Header: texts[0], Rows: make([]screen.Row, len(rows))}
	for i, row := range rows {
		out.Rows[i] = about(row)
		out.Rows[i].Text = texts[i+1]
	}
	return out
}

// freeGPUs summarizes each pool.
func freeGPUs(pools []inventory.Pool) []string {
	out := make([]string, len(pools))
	for i, pool := range pools {
		out[i] = fmt.Sprintf("%s %d/%d", oneLine(pool.Name), pool.GPUs.Free, pool.GPUs.Allocatable)
	}
	return out
}

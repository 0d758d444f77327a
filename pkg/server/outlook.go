package server

import (
	"context"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/survival"
)

const (
	// pastFor is how long the ledger's history is cached. pastRunsRetry is the retry interval after a query that took longer than pastRunsTimeout.
	pastFor, pastAgain = 10 * time.Minute, time.Minute
	pastPatience       = 5 * time.Second
	// outlookFor is how long estimates are cached. Computing them may take a second of a core, so frequent queries must not repeat it.
	outlookFor = 30 * time.Second
)

// outlookOfQueue estimates when queued jobs start, from the ledger's history. It queries the ledger with the server's identity, which may read the
// pods of all namespaces: every waiting user gets the estimates, and no user learns how long another user's jobs run.
type outlookOfQueue struct {
	// runs queries the ledger; nil without a ledger.
	runs func(context.Context, ledgerclient.Query) ([]ledger.Run, bool, error)
	log  *slog.Logger
	now  func() time.Time

	// past and pastUntil belong to the goroutine that makes the estimates.
	past      *survival.History
	pastUntil time.Time

	mu         sync.Mutex
	making     bool
	told       queue.Outlook
	untilAgain time.Time
}

// of returns recent estimates for a queue. Only one computation runs at a time. The caller that starts it waits for it until its own context ends;
// other callers get the previous estimates, or none yet.
func (o *outlookOfQueue) of(ctx context.Context, line *queue.Queue, objects *snapshot.Snapshot, now time.Time) queue.Outlook {
	if o.runs == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.making || now.Before(o.untilAgain) {
		return o.told
	}
	o.making = true
	done, own := make(chan struct{}), *line
	own.Entries = slices.Clone(line.Entries) // the caller modifies its own entries
	go func() {
		defer close(done)
		o.make(context.WithoutCancel(ctx), &own, objects, now)
	}()
	o.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	o.mu.Lock()
	return o.told
}

// make computes new estimates. The next computation starts a fixed time after this one ends, however long it took. After a failure it logs the error,
// and the queue has no estimates.
func (o *outlookOfQueue) make(ctx context.Context, line *queue.Queue, objects *snapshot.Snapshot, now time.Time) {
	var told queue.Outlook
	defer func() {
		if trouble := recover(); trouble != nil { // no caller recovers
			o.log.ErrorContext(ctx, "When jobs start cannot be told", "error", trouble, "stack", string(debug.Stack()))
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.told, o.making, o.untilAgain = told, false, o.now().Add(outlookFor)
	}()
	if !now.Before(o.pastUntil) {
		o.read(ctx, now)
	}
	told = line.Outlook(objects, o.past, now)
}

// read queries the ledger. While the ledger does not answer, the previous history remains in use.
func (o *outlookOfQueue) read(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, pastPatience)
	defer cancel()
	runs, _, err := o.runs(ctx, ledgerclient.Query{Limit: ledger.RunsToLearn})
	if err != nil {
		o.log.WarnContext(ctx, "The ledger does not say how long jobs have run: when others start is told by time limits alone", "error", err)
		o.pastUntil = now.Add(pastAgain)
		return
	}
	o.past, o.pastUntil = ledger.Learn(runs), now.Add(pastFor)
}

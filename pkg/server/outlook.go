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
	// pastRunsTTL is how long the ledger's history is cached. pastRunsRetry is the retry interval after a query that took longer than pastRunsTimeout.
	pastRunsTTL, pastRunsRetry = 10 * time.Minute, time.Minute
	pastRunsTimeout            = 5 * time.Second
	// estimatesTTL is how long estimates are cached. Computing them may take a second of a core, so frequent queries must not repeat it.
	estimatesTTL = 30 * time.Second
)

// startEstimator estimates when queued jobs start, from the ledger's history. It queries the ledger with the server's identity, which may read the
// pods of all namespaces: every waiting user gets the estimates, and no user learns how long another user's jobs run.
type startEstimator struct {
	// runs queries the ledger; nil without a ledger.
	runs func(context.Context, ledgerclient.Query) ([]ledger.Run, bool, error)
	log  *slog.Logger
	now  func() time.Time

	// past and pastUntil belong to the goroutine that makes the estimates.
	past      *survival.History
	pastUntil time.Time

	mu         sync.Mutex
	making     bool
	latest     queue.StartEstimates
	untilAgain time.Time
}

// estimatesFor returns recent estimates for a queue. Only one computation runs at a time. The caller that starts it waits for it until its own context ends;
// other callers get the previous estimates, or none yet.
func (o *startEstimator) estimatesFor(ctx context.Context, line *queue.Queue, objects *snapshot.Snapshot, now time.Time) queue.StartEstimates {
	if o.runs == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.making || now.Before(o.untilAgain) {
		return o.latest
	}
	o.making = true
	done, own := make(chan struct{}), *line
	own.Entries = slices.Clone(line.Entries) // the caller modifies its own entries
	go func() {
		defer close(done)
		o.makeEstimates(context.WithoutCancel(ctx), &own, objects, now)
	}()
	o.mu.Unlock()
	select {
	case <-done:
	case <-ctx.Done():
	}
	o.mu.Lock()
	return o.latest
}

// makeEstimates computes new estimates. The next computation starts a fixed time after this one ends, however long it took. After a failure it logs the error,
// and the queue has no estimates.
func (o *startEstimator) makeEstimates(ctx context.Context, line *queue.Queue, objects *snapshot.Snapshot, now time.Time) {
	var told queue.StartEstimates
	defer func() {
		if trouble := recover(); trouble != nil { // no caller recovers
			o.log.ErrorContext(ctx, "When jobs start cannot be told", "error", trouble, "stack", string(debug.Stack()))
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.latest, o.making, o.untilAgain = told, false, o.now().Add(estimatesTTL)
	}()
	if !now.Before(o.pastUntil) {
		o.readPastRuns(ctx, now)
	}
	told = line.EstimateStarts(objects, o.past, now)
}

// readPastRuns queries the ledger. While the ledger does not answer, the previous history remains in use.
func (o *startEstimator) readPastRuns(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, pastRunsTimeout)
	defer cancel()
	runs, _, err := o.runs(ctx, ledgerclient.Query{Limit: ledger.RunsToLearn})
	if err != nil {
		o.log.WarnContext(ctx, "The ledger does not say how long jobs have run: when others start is told by time limits alone", "error", err)
		o.pastUntil = now.Add(pastRunsRetry)
		return
	}
	o.past, o.pastUntil = ledger.Learn(runs), now.Add(pastRunsTTL)
}

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
	// pastFor is how long what the ledger says of the past is good for, and pastAgain after how long it is asked again that did not
	// answer within pastPatience.
	pastFor, pastAgain = 10 * time.Minute, time.Minute
	pastPatience       = 5 * time.Second
	// outlookFor is how long an outlook is told: to make one may take a second of a core, whoever asks how often.
	outlookFor = 30 * time.Second
)

// outlookOfQueue is when jobs start, by what the ledger says of the past. It is asked with the identity of the server, which reads the pods
// of all namespaces: everybody who waits is told when, and of nobody else how long they run.
type outlookOfQueue struct {
	// runs asks the ledger, nil for none.
	runs func(context.Context, ledgerclient.Query) ([]ledger.Run, bool, error)
	log  *slog.Logger
	now  func() time.Time

	// past and pastUntil belong to whoever makes an outlook.
	past      *survival.History
	pastUntil time.Time

	mu         sync.Mutex
	making     bool
	told       queue.Outlook
	untilAgain time.Time
}

// of returns an outlook that is not much older than a queue. One alone is made at a time: whoever finds none that is young enough waits for
// it, as long as it likes, and the others have the one before, or none yet.
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
	own.Entries = slices.Clone(line.Entries) // the caller writes to its own
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

// make replaces the outlook. The next one is made some time after it is there, however long it took. If one cannot be made, a log says so,
// and the queue goes on without.
func (o *outlookOfQueue) make(ctx context.Context, line *queue.Queue, objects *snapshot.Snapshot, now time.Time) {
	var told queue.Outlook
	defer func() {
		if trouble := recover(); trouble != nil { // nobody above would
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

// read asks the ledger. While it does not answer, what it has said before counts.
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

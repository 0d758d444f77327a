package server

import (
	"context"
	"log/slog"
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

	mu         sync.Mutex
	past       *survival.History
	pastUntil  time.Time
	told       queue.Outlook
	untilAgain time.Time
}

// of returns an outlook that is not much older than a queue.
func (o *outlookOfQueue) of(ctx context.Context, line *queue.Queue, objects *snapshot.Snapshot, now time.Time) queue.Outlook {
	if o.runs == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if now.Before(o.untilAgain) {
		return o.told
	}
	if !now.Before(o.pastUntil) {
		o.read(context.WithoutCancel(ctx), now) // who asks now may go, and others wait
	}
	o.told, o.untilAgain = line.Outlook(objects, o.past, now), now.Add(outlookFor)
	return o.told
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

// Package learn has at hand how long jobs have run, for who cannot wait for the ledger: it asks beside, some times an hour, and tells
// what it has learnt. A ledger that does not answer, or says what nobody can make sense of, is asked again; what it has said before counts for
// a day, and then nothing is known. What it is told is bounded, whatever the ledger sends.
package learn

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/survival"
)

const (
	// every is how often the ledger is asked, and again after how long one that did not answer within patience.
	every, again = 10 * time.Minute, time.Minute
	patience     = 10 * time.Second
	// longest is for how long counts what the ledger has said that does not answer any more.
	longest = 24 * time.Hour
)

// Follow asks until ctx ends, and tells of how long the jobs of each namespace have run; nil when that is not known any more.
func Follow(ctx context.Context, runs func(context.Context, client.Query) ([]ledger.Run, bool, error), tell func(*survival.History)) {
	var said time.Time
	for ctx.Err() == nil {
		wait := every
		past, err := ask(ctx, runs)
		switch {
		case err == nil:
			said = time.Now()
			tell(past)
		case ctx.Err() != nil:
			return
		default:
			wait = again
			klog.FromContext(ctx).Error(err, "The ledger does not say how long jobs have run: what it has said before counts for a day, and then deadlines alone")
			if !said.IsZero() && time.Since(said) > longest {
				said = time.Time{}
				tell(nil)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

func ask(ctx context.Context, runs func(context.Context, client.Query) ([]ledger.Run, bool, error)) (*survival.History, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found, _, err := runs(ctx, client.Query{Limit: ledger.RunsToLearn})
	if err != nil {
		return nil, err
	}
	return ledger.LearnOfNamespaces(found[:min(len(found), ledger.RunsToLearn)]), nil
}

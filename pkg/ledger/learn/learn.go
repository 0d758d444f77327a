// Package learn keeps statistics of job run times for callers that cannot wait for the ledger: it queries the ledger in the background some times per
// hour. If the ledger fails or returns invalid data, it retries. The previous result remains valid for a day; after that nothing is known. The result
// is bounded, whatever the ledger returns.
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
	// refreshInterval is the query interval, and retryInterval the retry interval after a query that failed or took longer than queryTimeout.
	refreshInterval, retryInterval = 10 * time.Minute, time.Minute
	queryTimeout                   = 10 * time.Second
	// historyTTL is how long a result remains valid while the ledger does not answer.
	historyTTL = 24 * time.Hour
)

// RefreshHistory queries the ledger until ctx ends, and passes the run times of each namespace's jobs to tell; nil when they are no longer known.
func RefreshHistory(ctx context.Context, runs func(context.Context, client.Query) ([]ledger.Run, bool, error), tell func(*survival.History)) {
	var said time.Time
	for ctx.Err() == nil {
		wait := refreshInterval
		past, err := queryRuns(ctx, runs)
		switch {
		case err == nil:
			said = time.Now()
			tell(past)
		case ctx.Err() != nil:
			return
		default:
			wait = retryInterval
			klog.FromContext(ctx).Error(err, "The ledger does not say how long jobs have run: what it has said before counts for a day, and then deadlines alone")
			if !said.IsZero() && time.Since(said) > historyTTL {
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

func queryRuns(ctx context.Context, runs func(context.Context, client.Query) ([]ledger.Run, bool, error)) (*survival.History, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	found, _, err := runs(ctx, client.Query{Limit: ledger.RunsToLearn})
	if err != nil {
		return nil, err
	}
	return ledger.LearnOfNamespaces(found[:min(len(found), ledger.RunsToLearn)]), nil
}

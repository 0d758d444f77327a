// Package measure records in the ledger the load of the GPUs that pods held, from Prometheus. It queries all GPUs of the cluster at once, for a few
// minutes at a time, so that neither many nor long jobs cost more queries. Missing data stays unknown.
package measure

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/ledger"
)

const (
	// step is the resolution. The first and last step of a pod are unknown, because other pods may have had its GPUs in them, too.
	step = time.Minute
	// lag is the delay before a time is queried: exporters are scraped periodically, and kubelets report the end of a container with a delay.
	lag = 2 * time.Minute
	// every is the length of a query, and the query interval when there is no backlog.
	every = 5 * time.Minute
	// mostSteps bounds the steps of a query; for 10,000 GPUs the answer has some 7 MB.
	mostSteps = 15
	// pause is the interval between queries: six per minute.
	pause = 10 * time.Second
	// mostBehind is the maximum backlog. Older data that Prometheus did not provide stays unknown.
	mostBehind = 24 * time.Hour
)

// Prometheus provides the past load of GPUs; [gpumetrics.Client] implements it.
type Prometheus interface {
	ReadMeans(ctx context.Context, end time.Time, step time.Duration, steps int) (*gpumetrics.Past, error)
}

// Book stores the load. The ledger's store implements it.
type Book interface {
	// Measured returns the time until which the load is stored, zero for never, and the time until which a resource is recorded.
	Measured(of string) (measured, followed time.Time, err error)
	// Measure adds the load to each holding of a time range.
	Measure(from, to time.Time, load func(*ledger.Holding) ledger.Load) error
}

// Measurer records the GPU load of one cluster's pods.
type Measurer struct {
	Book       Book
	Prometheus Prometheus
	// Pods is the Book's name for the recording of pods.
	Pods string
	Log  *slog.Logger
	Now  func() time.Time

	// most bounds the steps of a query, reduced after an answer was too large; 0 before the first query.
	most int
}

// Run records the load until ctx ends, or the ledger cannot be written. It retries if Prometheus does not answer.
func (m *Measurer) Run(ctx context.Context) error {
	for {
		wait, err := m.measureNext(ctx)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// measureNext records the next completed time range, and returns how long to wait before the one after it.
func (m *Measurer) measureNext(ctx context.Context) (wait time.Duration, err error) {
	if m.most == 0 {
		m.most = mostSteps
	}
	measured, followed, err := m.Book.Measured(m.Pods)
	if err != nil {
		return 0, err
	}
	from, steps := dueSteps(measured, followed, m.Now(), m.most)
	if steps == 0 {
		return pause, nil
	}
	to := from.Add(time.Duration(steps) * step)
	past, err := m.Prometheus.ReadMeans(ctx, to, step, steps)
	if err != nil {
		return m.handleFailure(ctx, steps, err), nil
	}
	return pause, m.Book.Measure(from, to, func(h *ledger.Holding) ledger.Load { return measuredLoad(h, past, from, steps) })
}

// handleFailure returns when to retry a failed query. If the answer was too large, the next query is shorter.
func (m *Measurer) handleFailure(ctx context.Context, steps int, err error) time.Duration {
	if errors.Is(err, gpumetrics.ErrTooLarge) && steps > 1 {
		m.most = steps / 2
		return pause
	}
	if ctx.Err() == nil {
		m.Log.WarnContext(ctx, "How busy GPUs were is not known for now", "error", err)
	}
	return every
}

// dueSteps returns the start and length in steps of the next query; no steps while too little time has completed, or its holdings are not known.
func dueSteps(measured, followed, now time.Time, most int) (from time.Time, steps int) {
	end := now.Add(-lag)
	if followed.Before(end) {
		end = followed
	}
	end = end.Truncate(step)
	if from = measured; from.Before(end.Add(-mostBehind)) {
		from = end.Add(-mostBehind)
	}
	if over := end.Sub(from); followed.IsZero() || over < every {
		return from, 0
	}
	return from, min(most, int(end.Sub(from)/step))
}

// measuredLoad returns the load of a pod's GPUs in the steps throughout which it held all of them. The load of a shared GPU cannot be attributed.
func measuredLoad(h *ledger.Holding, past *gpumetrics.Past, from time.Time, steps int) ledger.Load {
	var measured, busy time.Duration
	for _, card := range h.GPUs {
		if card.MemoryMiB > 0 {
			continue
		}
		known := past.StepsFor(card.UUID, h.Node, card.Index)
		for i := range min(steps, len(known)) {
			begin := from.Add(time.Duration(i) * step)
			outside := begin.Before(h.From) || h.HasEnded() && begin.Add(step).After(h.To)
			if outside || known[i] == gpumetrics.Unknown {
				continue
			}
			measured += step
			busy += time.Duration(known[i] / 100 * float64(step))
		}
	}
	count := time.Duration(max(1, len(h.GPUs)))
	return ledger.Load{Measured: measured / count, Busy: busy / count}
}

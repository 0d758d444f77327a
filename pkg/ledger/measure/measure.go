// Package measure writes into the ledger how busy the GPUs were that pods held, as Prometheus has it. It asks about all GPUs of the
// cluster at once, a few minutes at a time, so that neither many jobs nor long ones cost more questions. What it is not told
// stays unknown.
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
	// step is what the past is divided into: a pod's first and last are unknown, as others may have had its GPUs in them, too.
	step = time.Minute
	// lag is how long after it something is asked about: exporters are asked from time to time, and kubelets tell with a delay
	// when a container has ended.
	lag = 2 * time.Minute
	// every is how much is asked about at a time, and how often while nothing is left to catch up with.
	every = 5 * time.Minute
	// mostSteps is how much is asked about at most, of 10,000 GPUs some 7 MB.
	mostSteps = 15
	// pause is the time between two questions: six a minute.
	pause = 10 * time.Second
	// mostBehind is how long ago something is still asked about. What Prometheus did not tell within that time stays unknown.
	mostBehind = 24 * time.Hour
)

// Prometheus knows how busy GPUs were; [gpumetrics.Client] does.
type Prometheus interface {
	ReadMeans(ctx context.Context, end time.Time, step time.Duration, steps int) (*gpumetrics.Past, error)
}

// Book is where it is written down. The store of the ledger is one.
type Book interface {
	// Measured is until when it is, zero for never, and until when something is followed.
	Measured(of string) (measured, followed time.Time, err error)
	// Measure adds to each holding of a time what load says of it.
	Measure(from, to time.Time, load func(*ledger.Holding) ledger.Load) error
}

// Measurer measures what pods of one cluster hold.
type Measurer struct {
	Book       Book
	Prometheus Prometheus
	// Pods is what the Book calls the following of pods.
	Pods string
	Log  *slog.Logger
	Now  func() time.Time

	// most is how many steps are asked about at most, fewer where an answer was too large; 0 before the first.
	most int
}

// Run measures until ctx ends, or the ledger cannot be written. A Prometheus that does not answer is asked again later.
func (m *Measurer) Run(ctx context.Context) error {
	for {
		wait, err := m.next(ctx)
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

// next measures the next time that is over, and says how long to wait before the one after it.
func (m *Measurer) next(ctx context.Context) (wait time.Duration, err error) {
	if m.most == 0 {
		m.most = mostSteps
	}
	measured, followed, err := m.Book.Measured(m.Pods)
	if err != nil {
		return 0, err
	}
	from, steps := due(measured, followed, m.Now(), m.most)
	if steps == 0 {
		return pause, nil
	}
	to := from.Add(time.Duration(steps) * step)
	past, err := m.Prometheus.ReadMeans(ctx, to, step, steps)
	if err != nil {
		return m.unanswered(ctx, steps, err), nil
	}
	return pause, m.Book.Measure(from, to, func(h *ledger.Holding) ledger.Load { return load(h, past, from, steps) })
}

// unanswered says of a question that was not answered when to ask again: for less at once where the answer was too large.
func (m *Measurer) unanswered(ctx context.Context, steps int, err error) time.Duration {
	if errors.Is(err, gpumetrics.ErrTooLarge) && steps > 1 {
		m.most = steps / 2
		return pause
	}
	if ctx.Err() == nil {
		m.Log.WarnContext(ctx, "How busy GPUs were is not known for now", "error", err)
	}
	return every
}

// due is the next time to ask about: from when, and how many steps; none while too little of it is over, or is not known to be
// held by whom.
func due(measured, followed, now time.Time, most int) (from time.Time, steps int) {
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

// load is how busy the GPUs of a pod were in the steps through which it held them all. Of a GPU that it shares it is not known who
// made it busy.
func load(h *ledger.Holding, past *gpumetrics.Past, from time.Time, steps int) ledger.Load {
	var measured, busy time.Duration
	for _, card := range h.GPUs {
		if card.MemoryMiB > 0 {
			continue
		}
		known := past.Of(card.UUID, h.Node, card.Index)
		for i := range min(steps, len(known)) {
			begin := from.Add(time.Duration(i) * step)
			outside := begin.Before(h.From) || h.Ended() && begin.Add(step).After(h.To)
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

package cli

import (
	"context"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// findQueueEntry finds the queue position of a job and its estimated start, from the ledger's history, or from time limits if a quota keeps it
// waiting. It returns false if the start is unknown. Errors are ignored: other output does not depend on it.
func (f *Factory) findQueueEntry(ctx context.Context, o *ledgerOptions, namespace string, report *diagnosis.Report) (queue.Entry, bool) {
	past, _ := o.runHistory(ctx, f)
	client, err := f.newKubernetesClient()
	overQuota := slices.ContainsFunc(report.Findings, func(f diagnosis.Finding) bool { return f.Cause == reason.GPUQuotaReached })
	if past == nil && !overQuota || err != nil {
		return queue.Entry{}, false
	}
	line, err := queue.Read(ctx, client, namespace, queue.NewEstimateCache(past), f.Now())
	if err != nil {
		return queue.Entry{}, false
	}
	at := slices.IndexFunc(line.Entries, func(e queue.Entry) bool {
		known := e.Latest != nil || e.Cause == reason.GPUQuotaReached && e.ETA != nil
		return e.Namespace == namespace && e.Kind == report.Kind && e.Name == report.Job && known
	})
	if at < 0 {
		return queue.Entry{}, false
	}
	return line.Entries[at], true
}

// describeQueueEntry writes when a job starts, as absolute times: a user who has to be present needs no durations.
func describeQueueEntry(d *description, e queue.Entry, now time.Time) {
	d.writeSection(phrase.Textf("In line").Localize(d.language))
	d.writeWrapped(indent+queuePositionText(e, now).Localize(d.language), len(indent))
}

func queuePositionText(e queue.Entry, now time.Time) phrase.Text {
	if e.Latest == nil {
		return phrase.Textf("number %d in pool %s; others leave enough of its quota, and it starts, by %s, if all before it use all of their time limits",
			e.Position, e.Pool, formatClock(*e.ETA, *e.ETA, now))
	}
	from, to := formatClock(*e.Earliest, *e.Latest, now), formatClock(*e.Latest, *e.Latest, now)
	switch {
	case from == to && e.Cause == reason.GPUQuotaReached:
		return phrase.Textf("number %d in pool %s; others leave enough of its quota, and it starts, at about %s (%s), by how long jobs like them have run",
			e.Position, e.Pool, to, roundedPercent(100*e.Confidence))
	case from == to:
		return phrase.Textf("number %d in pool %s, behind %d GPUs; starts at about %s (%s), by how long jobs like those before it have run",
			e.Position, e.Pool, e.GPUsAhead, to, roundedPercent(100*e.Confidence))
	}
	if e.Cause == reason.GPUQuotaReached {
		return phrase.Textf("number %d in pool %s; others leave enough of its quota, and it starts, between %s and %s (%s), by how long jobs like them have run",
			e.Position, e.Pool, from, to, roundedPercent(100*e.Confidence))
	}
	return phrase.Textf("number %d in pool %s, behind %d GPUs; starts between %s and %s (%s), by how long jobs like those before it have run",
		e.Position, e.Pool, e.GPUsAhead, from, to, roundedPercent(100*e.Confidence))
}

// formatClock formats a time together with the last one of the interval: with the date if the interval may not end today.
func formatClock(at, last, now time.Time) string {
	layout := time.TimeOnly[:len("15:04")]
	if last.Sub(now) > 20*time.Hour {
		layout = "2006-01-02 15:04"
	}
	return at.In(now.Location()).Format(layout)
}

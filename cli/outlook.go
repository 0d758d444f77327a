package cli

import (
	"context"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/queue"
)

// outlook is the place in line of a job of which the ledger tells when it starts; false of every other. What keeps that from being told
// keeps nothing else from being told.
func (f *Factory) outlook(ctx context.Context, o *ledgerOptions, namespace, kind, name string) (queue.Entry, bool) {
	past, _ := o.past(ctx, f)
	client, err := f.kubernetes()
	if past == nil || err != nil {
		return queue.Entry{}, false
	}
	line, err := queue.Read(ctx, client, namespace, queue.NewForesight(past), f.Now())
	if err != nil {
		return queue.Entry{}, false
	}
	at := slices.IndexFunc(line.Entries, func(e queue.Entry) bool {
		return e.Namespace == namespace && e.Kind == kind && e.Name == name && e.Latest != nil
	})
	if at < 0 {
		return queue.Entry{}, false
	}
	return line.Entries[at], true
}

// explainOutlook writes when a job starts, with the moments: who has to be there then reads no durations.
func explainOutlook(d *description, e queue.Entry, now time.Time) {
	d.section(phrase.Of("In line").In(d.language))
	layout := time.TimeOnly[:len("15:04")]
	if e.Latest.Sub(now) > 20*time.Hour { // else nobody takes it for another day
		layout = "2006-01-02 15:04"
	}
	from, to := e.Earliest.In(now.Location()).Format(layout), e.Latest.In(now.Location()).Format(layout)
	said := phrase.Of("number %d in pool %s, behind %d GPUs; starts between %s and %s (%s), by how long jobs like those before it have run",
		e.Position, e.Pool, e.GPUsAhead, from, to, percentage(100*e.Confidence))
	d.text(indent+said.In(d.language), len(indent))
}

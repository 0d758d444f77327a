package cli

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type eventsOptions struct {
	listing[jobEvent]
	factory       *Factory
	allNamespaces bool
}

// jobEvent is an event of an object that belongs to a job.
type jobEvent struct {
	Namespace string `json:"namespace"`
	Job       string `json:"job"`
	Kind      string `json:"kind"`
	inventory.Event
}

func newEventsCmd(f *Factory) *cobra.Command {
	o := &eventsOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "events [JOB]...",
		Short: "List what happened to jobs: the events of all their objects, merged",
		Long: "List what happened to jobs, the oldest first: the events of the job's own object, its replica sets, its\n" +
			"pods and its service, merged. Kubernetes keeps events for an hour.",
		Example: "  gpuctl events qwen2-sft\n  gpuctl events -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = jobNames(args)
			return runEvents(cmd.Context(), o)
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.listing = listing[jobEvent]{
		io: f.IO, now: f.Now, noun: "event",
		columns: func(now time.Time) []column[jobEvent] { return jobEventColumns(now, o.allNamespaces) },
		name:    func(e jobEvent) string { return e.Job },
		id:      func(e jobEvent) string { return e.Namespace + "/" + e.Object + " " + e.Reason + " " + e.Message },
		print:   func(e jobEvent) string { return e.Object + " " + e.Reason },
		quiet:   true,
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "List the events of jobs in all namespaces")
	return cmd
}

// eventsPoll is the interval between two reads of watched events.
const eventsPoll = 2 * time.Second

func runEvents(ctx context.Context, o *eventsOptions) error {
	query := inventory.JobQuery{Foreign: true}
	if !o.allNamespaces {
		namespace, err := o.factory.currentNamespace()
		if err != nil {
			return err
		}
		query.Namespace = namespace
	}
	reader, err := o.factory.newReader()
	if err != nil {
		return err
	}
	read := func(ctx context.Context) ([]jobEvent, error) {
		details, err := reader.Details(ctx, query)
		if err != nil {
			return nil, err
		}
		return o.eventsOf(details)
	}
	return o.runListing(ctx, read, func(ctx context.Context, report func([]jobEvent)) error {
		reread := func() error {
			events, err := read(ctx)
			if err == nil {
				report(events)
			}
			return err
		}
		if err := reread(); err != nil {
			return err
		}
		return pollUntilDone(ctx, eventsPoll, reread)
	})
}

// eventsOf merges the events of the named jobs, or of all. A job without events is not reported as missing.
func (o *eventsOptions) eventsOf(details []inventory.JobDetail) ([]jobEvent, error) {
	var out []jobEvent
	for _, name := range o.names {
		if !slices.ContainsFunc(details, func(d inventory.JobDetail) bool { return d.Name == name }) {
			return nil, &notFoundError{what: phrase.Textf("job %q", name)}
		}
	}
	for _, detail := range details {
		if len(o.names) > 0 && !slices.Contains(o.names, detail.Name) {
			continue
		}
		for _, event := range detail.Events {
			out = append(out, jobEvent{Namespace: detail.Namespace, Job: detail.Name, Kind: detail.Kind, Event: event})
		}
	}
	slices.SortStableFunc(out, func(a, b jobEvent) int { return a.Last.Compare(b.Last) })
	return out, nil
}

func jobEventColumns(now time.Time, namespaces bool) []column[jobEvent] {
	columns := []column[jobEvent]{{header: "JOB", spare: true, value: func(e jobEvent) string { return e.Job }}}
	if namespaces {
		columns = slices.Insert(columns, 0, column[jobEvent]{header: "NAMESPACE", value: func(e jobEvent) string { return e.Namespace }})
	}
	for _, c := range eventColumns(now) {
		outer := column[jobEvent]{header: c.header, spill: c.spill, spare: c.spare, value: func(e jobEvent) string { return c.plainValue(e.Event) }}
		if c.color != nil {
			outer.color = func(e jobEvent) string { return c.color(e.Event) }
		}
		columns = append(columns, outer)
	}
	return columns
}

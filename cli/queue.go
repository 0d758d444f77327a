package cli

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/queue"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

type queueOptions struct {
	listing[queue.Entry]
	factory       *Factory
	ledger        ledgerOptions
	allNamespaces bool
}

func newQueueCmd(f *Factory) *cobra.Command {
	o := &queueOptions{factory: f}
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List the jobs that wait for GPUs, in the order in which the scheduler tries them",
		Long: "List the jobs that wait for GPUs, in the order in which the scheduler tries them: by priority, then by the\n" +
			"time they have waited. Each pool has a line of its own. Positions count the jobs of all namespaces, also\n" +
			"of those not shown. A job that fits now starts, also when one before it does not fit.\n\n" +
			"STARTS is when a job starts if every job before it uses all of its time-limit, and \"unknown\" when one of\n" +
			"them has none. Where a ledger tells how long jobs like them have run, it is between which moments the job\n" +
			"starts in nine cases of ten. It is \"on reclaim\" when a GPUQuota guarantees its GPUs, and others leave for it\n" +
			"who borrow them; \"blocked\" when something else than room is in its way, which REASON names, such as closed\n" +
			"nodes, a missing volume, or a scheduler that is down. Where REASON is a GPUQuota that is used up, STARTS reckons\n" +
			"with when others leave enough of it, and is \"blocked\" where that is not known; \"never\" when the nodes\n" +
			"of the pool could not hold it even if they were empty, or its quota is too small: see gpuctl why. Jobs whose\n" +
			"pods are not let in, not made or gated, by whatever it is, come last: they have no place in the line.",
		Example: "  gpuctl queue\n  gpuctl queue -A --pool training-pool\n  gpuctl queue -w\n  gpuctl queue -o json",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runQueue(cmd.Context(), o) },
	}
	o.listing = listing[queue.Entry]{
		io: f.IO, now: f.Now, noun: "waiting job",
		columns: func(now time.Time) []column[queue.Entry] { return queueColumns(now, o.allNamespaces) },
		gone:    phrase.Textf("waits no more: it has a place, or has ended"),
		name:    func(e queue.Entry) string { return e.Name },
		id:      func(e queue.Entry) string { return e.Namespace + "/" + e.Kind + "/" + queuedName(e) },
		print:   func(e queue.Entry) string { return e.Kind + "/" + e.Name },
	}
	o.addFlags(cmd)
	o.addPoolFlag(cmd, f, "Only the line of this pool")
	o.ledger.addFlags(cmd.Flags())
	o.addNamespaceFlag(cmd, f, &o.allNamespaces, "Show the jobs of all namespaces")
	return cmd
}

// queuePoll is the interval between two reads of a watched queue.
const queuePoll = 2 * time.Second

func runQueue(ctx context.Context, o *queueOptions) error {
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return err
	}
	client, err := o.factory.newKubernetesClient()
	if err != nil {
		return err
	}
	past, doubt := o.ledger.runHistory(ctx, o.factory)
	if len(doubt) > 0 {
		o.factory.IO.printErr("note: %s", doubt)
	}
	foreseen := queue.NewEstimateCache(past)
	read := func(ctx context.Context) (entries []queue.Entry, warning phrase.Text, err error) {
		line, err := queue.Read(ctx, client, namespace, foreseen, o.factory.Now())
		return o.filterEntries(line.Entries, namespace), unreadWarning(line, namespace), err
	}
	entries, warning, err := read(ctx)
	if err != nil {
		return err
	}
	if len(warning) > 0 {
		o.factory.IO.printErr("warning: %s", warning)
	}
	if !o.watch {
		return o.printNamed(entries)
	}
	return runWatch(ctx, func(ctx context.Context, cancel context.CancelCauseFunc) error {
		report := o.newChangePrinter(ctx, cancel)
		report(entries)
		return pollUntilDone(ctx, queuePoll, func() error {
			entries, _, err := read(ctx)
			if err == nil {
				report(entries)
			}
			return err
		})
	})
}

// unreadWarning says what is missing in the queue because the user may not read it; empty if nothing is.
func unreadWarning(line queue.Queue, namespace string) phrase.Text {
	if line.Partial {
		return phrase.Textf("you may not list the pods of all namespaces: positions count those of %s alone", namespace)
	}
	var missing []phrase.Text
	for _, part := range line.Unread {
		switch part {
		case snapshot.PartNodes:
			missing = append(missing, phrase.Textf("nodes: when jobs start is not known"))
		case snapshot.PartJobs:
			missing = append(missing, phrase.Textf("Jobs of all namespaces: when those of others end is not known"))
		case snapshot.PartDeployments, snapshot.PartQuotas:
			missing = append(missing, phrase.Textf("%s of all namespaces: jobs that a quota keeps out are shown of %s alone", part.Says(), namespace))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return phrase.Textf("you may not list %s", phrase.Join(missing, phrase.Textf("; nor ")))
}

// pollUntilDone calls a function at intervals until it fails or ctx ends.
func pollUntilDone(ctx context.Context, interval time.Duration, do func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			if err := do(); err != nil {
				return err
			}
		}
	}
}

func (o *queueOptions) filterEntries(entries []queue.Entry, namespace string) []queue.Entry {
	return slices.DeleteFunc(entries, func(e queue.Entry) bool {
		return o.pool != "" && e.Pool != o.pool || !o.allNamespaces && e.Namespace != namespace
	})
}

func queueColumns(now time.Time, namespaces bool) []column[queue.Entry] {
	type entry = queue.Entry
	columns := []column[entry]{
		{header: "POOL", elastic: true, value: func(e entry) string { return e.Pool }},
		{header: "#", value: func(e entry) string { return queueNumber(e, int64(e.Position)) }},
		{header: "JOB", elastic: true, value: queuedName},
		{header: "KIND", wide: true, value: func(e entry) string { return e.Kind }},
		{header: "PRIORITY", value: priorityText},
		{header: "GPUS", value: func(e entry) string { return strconv.FormatInt(e.GPUs, 10) }},
		{header: "GPU-TYPE", wide: true, worded: true, value: queuedTypes},
		{header: "WAITED", value: func(e entry) string {
			if now.IsZero() {
				return ""
			}
			return formatAge(now, e.Since)
		}},
		{header: "JOBS AHEAD", spare: true, value: func(e entry) string { return queueNumber(e, int64(e.JobsAhead)) }},
		{header: "GPUS AHEAD", spare: true, value: func(e entry) string { return queueNumber(e, e.GPUsAhead) }},
		{header: "STARTS", text: func(e entry) phrase.Text { return startEstimate(now, e) }},
		{header: "REASON", spill: true, value: func(e entry) string { return englishReason(e.Trouble) }, localized: queuedReason},
	}
	if namespaces {
		columns = slices.Insert(columns, 2, column[entry]{header: "NAMESPACE", elastic: true, value: func(e entry) string { return e.Namespace }})
	}
	return columns
}

// queuedName is the name of a job, with the replica of a workload whose replicas start each for itself.
func queuedName(e queue.Entry) string {
	if e.Replica == "" {
		return e.Name
	}
	return e.Name + "[" + e.Replica + "]"
}

// queuedReason says why a job waits, in a language.
func queuedReason(e queue.Entry, language phrase.Language) string {
	if len(e.MessageText) > 0 {
		return cmp.Or(e.Reason, "Unknown") + ": " + e.MessageText.Localize(language)
	}
	return localizeReason(e.Trouble, language)
}

// queueNumber formats a number that only queued jobs have.
func queueNumber(e queue.Entry, value int64) string {
	if e.Position == 0 {
		return "-"
	}
	return strconv.FormatInt(value, 10)
}

// priorityText returns gpuctl's name of a priority; for other pods the priority class, or else the number.
func priorityText(e queue.Entry) string {
	return cmp.Or(queue.PriorityName(e.PriorityClass), e.PriorityClass, strconv.Itoa(int(e.Priority)))
}

// queuedTypes returns the GPU types, or MIG profiles, that a job waits for.
func queuedTypes(e queue.Entry) string {
	if len(e.MIG) > 0 {
		return migTypeNames(e.MIG, e.GPUTypes)
	}
	return gpuTypeNames(e.GPUTypes)
}

// startEstimate describes when a job starts, as far as that is known.
func startEstimate(now time.Time, e queue.Entry) phrase.Text {
	eta := e.ETA
	switch {
	case e.Never:
		return phrase.Textf("never")
	case e.Cause != "" && eta == nil && e.Latest == nil:
		return phrase.Textf("blocked")
	case e.Reclaims:
		return phrase.Textf("on reclaim")
	case eta == nil && e.Latest == nil:
		return phrase.Textf("unknown")
	case now.IsZero():
		return nil
	case eta != nil && !eta.After(now):
		return phrase.Textf("now")
	case e.Latest != nil:
		return startInterval(now, e)
	}
	return phrase.Textf("in %s", formatAge(*eta, now))
}

// startInterval describes the interval in which a job starts.
func startInterval(now time.Time, e queue.Entry) phrase.Text {
	from, to := formatAge(*e.Earliest, now), formatAge(*e.Latest, now)
	switch {
	case from == to:
		return phrase.Textf("in %s", to)
	case !e.Earliest.After(now):
		return phrase.Textf("within %s (%s)", to, roundedPercent(100*e.Confidence))
	}
	return phrase.Textf("in %s to %s (%s)", from, to, roundedPercent(100*e.Confidence))
}

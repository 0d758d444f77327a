package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/ledger"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// finishedOptions are the options for finished jobs. The ledger knows them when the cluster no longer does.
type finishedOptions struct {
	show   bool
	since  string
	ledger ledgerOptions
}

func (o *finishedOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.show, "finished", false, "List jobs that have finished, those that are deleted too, from the ledger")
	cmd.Flags().StringVar(&o.since, "since", "7d", "With --finished: from when on, how long ago, a day or a time")
	o.ledger.addFlags(cmd.Flags())
}

// checkFinished refuses flags that do not apply to finished jobs.
func (o *getJobsOptions) checkFinished() error {
	switch {
	case o.watch:
		return usageErrorf("--finished cannot be watched: leave out -w")
	case o.pods.show:
		return usageErrorf("--finished knows the pods of one job: gpuctl describe JOB")
	case o.selector != "":
		return usageErrorf("the ledger keeps no labels: leave out -l")
	}
	return nil
}

func (o *getJobsOptions) runFinished(ctx context.Context) error {
	if err := o.checkFinished(); err != nil {
		return err
	}
	scope, err := o.jobQuery()
	if err != nil {
		return err
	}
	query := ledgerclient.Query{Name: scope.Name, User: o.user, Pool: o.pool}
	if scope.Namespace != "" {
		query.Namespaces = []string{scope.Namespace}
	}
	if query.Since, err = parseMoment("since", o.finished.since, o.factory.Now()); err != nil {
		return err
	}
	client, err := o.finished.ledger.newClient(ctx, o.factory)
	if err != nil {
		return err
	}
	jobs, more, err := client.Jobs(ctx, query)
	if err != nil {
		return err
	}
	if more {
		o.factory.IO.printErr("note: only the last %d are shown: ask for less with --since, --user or --pool", len(jobs))
	}
	list := listing[ledger.Job]{
		io: o.io, now: o.now, noun: "finished job", output: o.output, noHeaders: o.noHeaders, sortBy: o.sortBy, names: o.names,
		columns: func(now time.Time) []column[ledger.Job] { return finishedColumns(now, o.allNamespaces) },
		name:    func(j ledger.Job) string { return j.Name },
		id:      func(j ledger.Job) string { return j.UID },
		print:   func(j ledger.Job) string { return j.Kind + "/" + j.Name },
	}
	return list.printNamed(o.filterFinished(jobs))
}

func (o *getJobsOptions) filterFinished(jobs []ledger.Job) []ledger.Job {
	return slices.DeleteFunc(jobs, func(j ledger.Job) bool {
		return o.kind != "" && j.Kind != o.kind || o.status != "" && j.Status != o.status ||
			o.gpuType != "" && !slices.Contains(j.GPUTypes, o.gpuType)
	})
}

func finishedColumns(now time.Time, namespaces bool) []column[ledger.Job] {
	type job = ledger.Job
	columns := []column[job]{
		{header: "NAME", value: func(j job) string { return j.Name }},
		{header: "KIND", value: func(j job) string { return j.Kind }},
		{header: "STATUS", value: func(j job) string { return j.Status }},
		{header: "GPUS", value: func(j job) string { return strconv.FormatInt(j.GPUs, 10) }},
		{header: "GPU-TYPE", wide: true, value: func(j job) string { return strings.Join(j.GPUTypes, ",") }},
		{header: "POOL", value: func(j job) string { return j.Pool }},
		{header: "USER", value: func(j job) string { return j.User }, spare: true},
		{header: "LASTED", value: func(j job) string { return formatAge(j.Finished, j.Created) }},
		{header: "FINISHED", text: func(j job) phrase.Text { return finishedAgo(now, j) }},
		{header: "CREATED", wide: true, value: func(j job) string { return j.Created.Format(time.RFC3339) }},
		{header: "UID", wide: true, value: func(j job) string { return j.UID }},
	}
	for _, c := range efficiencyColumns(func(j job) *ledger.Efficiency { return j.Efficiency }, false) {
		c.wide = true
		columns = append(columns, c)
	}
	if namespaces {
		columns = slices.Insert(columns, 0, column[job]{header: "NAMESPACE", value: func(j job) string { return j.Namespace }})
	}
	return columns
}

// finishedAgo says how long ago a job finished; "by" if the exact time is unknown.
func finishedAgo(now time.Time, j ledger.Job) phrase.Text {
	if j.Uncertain {
		return phrase.Textf("by %s ago", formatAge(now, j.Finished))
	}
	return phrase.Textf("%s ago", formatAge(now, j.Finished))
}

// describeFinished shows the latest job of a name that the ledger knows. It returns false if there is no such job or no known ledger.
func (f *Factory) describeFinished(ctx context.Context, o *ledgerOptions, format string, namespace, name string) (bool, error) {
	if known, err := o.findAddress(ctx, f); err != nil || !known {
		return false, err
	}
	client, err := o.newClient(ctx, f)
	if err != nil {
		return false, err
	}
	jobs, _, err := client.Jobs(ctx, ledgerclient.Query{Namespaces: []string{namespace}, Name: name, Since: time.Unix(0, 0), Limit: 1})
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	job, err := client.Job(ctx, namespace, jobs[0].UID)
	if err != nil {
		return false, err
	}
	if format != "" {
		return true, writeEncoded(f.IO.Out, format, job)
	}
	return true, describeFinishedJob(newDescription(f.IO), job, f.Now())
}

func describeFinishedJob(d *description, job ledger.JobDetail, now time.Time) error {
	d.writeField("Name", job.Name)
	d.writeField("Namespace", job.Namespace)
	d.writeField("Kind", job.Kind)
	status := phrase.Textf("%s, %s", job.Status, finishedAgo(now, job.Job))
	if !job.Deleted.IsZero() {
		status = status.Addf("; the job is no longer in the cluster")
	}
	d.writeText("Status", status)
	d.writeField("Reason", strings.TrimSuffix(job.Reason+": "+localizeMessage(job.Message, d.language), ": "))
	d.writeField("User", job.User)
	d.writeField("Created", job.Created.Format(time.RFC3339))
	d.writeField("Finished", job.Finished.Format(time.RFC3339))
	d.writeField("Pool", job.Pool)
	d.writeField("GPUs", strconv.FormatInt(job.GPUs, 10))
	d.writeField("GPU-hours", strconv.FormatFloat(gpuHours(job.Holdings, now), 'f', 2, 64))
	d.writeText("Utilization", efficiencyText(job.Efficiency))
	columns := holdingColumns(now)
	if job.Efficiency != nil {
		columns = append(columns, efficiencyColumns(func(h ledger.Holding) *ledger.Efficiency { return h.Efficiency }, false)...)
	}
	return describeRows(d, "Pods that held GPUs", job.Holdings, columns)
}

// gpuHours sums the GPU-hours that pods certainly held.
func gpuHours(holdings []ledger.Holding, now time.Time) float64 {
	sum := 0.0
	for i := range holdings {
		sum += heldDuration(&holdings[i], now).Hours() * float64(holdings[i].Milli) / 1000
	}
	return sum
}

func heldDuration(h *ledger.Holding, now time.Time) time.Duration {
	if h.HasEnded() {
		return h.To.Sub(h.From)
	}
	return max(0, now.Sub(h.From))
}

func holdingColumns(now time.Time) []column[ledger.Holding] {
	type holding = ledger.Holding
	return []column[holding]{
		{header: "POD", value: func(h holding) string { return h.Pod }},
		{header: "NODE", value: func(h holding) string { return h.Node }},
		{header: "GPU-TYPE", value: func(h holding) string { return h.GPUType }},
		{header: "GPUS", value: func(h holding) string { return strconv.FormatFloat(float64(h.Milli)/1000, 'f', -1, 64) }},
		{header: "FROM", value: func(h holding) string { return h.From.Format(time.RFC3339) }},
		{header: "HELD", text: func(h holding) phrase.Text {
			least := formatAge(h.From.Add(heldDuration(&h, now)), h.From)
			if !h.Until.IsZero() {
				return phrase.Textf("%s to %s", least, formatAge(h.Until, h.From))
			}
			return phrase.Quote(least)
		}},
		{header: "OUTCOME", text: func(h holding) phrase.Text {
			if h.ExitCode != 0 {
				return phrase.Textf("%s (exit code %d)", h.Outcome, h.ExitCode)
			}
			return phrase.Quote(h.Outcome)
		}},
	}
}

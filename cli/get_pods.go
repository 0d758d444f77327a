package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// podOptions are the options of get jobs --pods.
type podOptions struct{ show bool }

// jobPod is one pod of a job, with the relevant fields of the job.
type jobPod struct {
	Job       string `json:"job"`
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	inventory.Pod
}

func podsOfJobs(jobs []inventory.Job) []jobPod {
	var out []jobPod
	for _, job := range jobs {
		for _, pod := range job.Pods {
			out = append(out, jobPod{Job: job.Name, Namespace: job.Namespace, Kind: job.Kind, Pod: pod})
		}
	}
	return out
}

// runPods lists the pods of the jobs instead of the jobs.
func (o *getJobsOptions) runPods(
	ctx context.Context, read func(context.Context) ([]inventory.Job, error),
	watch func(context.Context, func([]inventory.Job)) error,
) error {
	pods := &listing[jobPod]{
		io: o.io, now: o.now, noun: "pod", output: o.output, noHeaders: o.noHeaders, watch: o.watch, sortBy: o.sortBy,
		columns: func(now time.Time) []column[jobPod] { return jobPodColumns(now, o.allNamespaces) },
		name:    func(p jobPod) string { return p.Job },
		id:      func(p jobPod) string { return p.Namespace + "/" + p.Name },
		print:   func(p jobPod) string { return "pod/" + p.Name },
	}
	return pods.runListing(ctx,
		func(ctx context.Context) ([]jobPod, error) {
			jobs, err := read(ctx)
			if err != nil {
				return nil, err
			}
			picked, missing := o.pickNamed(jobs)
			if len(missing) > 0 {
				return nil, &notFoundError{what: phrase.Textf("%s %s", phrase.Textf("job"), quoteNames(missing))}
			}
			return podsOfJobs(picked), nil
		},
		func(ctx context.Context, report func([]jobPod)) error {
			return watch(ctx, func(jobs []inventory.Job) {
				picked, _ := o.pickNamed(jobs)
				report(podsOfJobs(picked))
			})
		})
}

func jobPodColumns(now time.Time, namespaces bool) []column[jobPod] {
	columns := []column[jobPod]{
		{header: "POD", value: func(p jobPod) string { return p.Name }},
		{header: "JOB", value: func(p jobPod) string { return p.Job }},
		{header: "KIND", narrow: true, spare: true, value: func(p jobPod) string { return p.Kind }},
		{header: "KIND", wide: true, value: func(p jobPod) string { return p.Kind }},
		{header: "STATUS", value: func(p jobPod) string { return cmp.Or(p.Reason, p.Phase) }},
		{header: "READY", value: func(p jobPod) string { return strconv.FormatBool(p.Ready) }},
		{header: "RESTARTS", wide: true, value: func(p jobPod) string { return fmt.Sprint(p.Restarts) }},
		{header: "NODE", value: func(p jobPod) string { return p.Node }},
		{header: "IP", narrow: true, spare: true, value: func(p jobPod) string { return p.IP }},
		{header: "IP", wide: true, value: func(p jobPod) string { return p.IP }},
		{header: "AGE", value: func(p jobPod) string {
			if now.IsZero() {
				return ""
			}
			return formatAge(now, p.Created)
		}},
	}
	if namespaces {
		columns = slices.Insert(columns, 0, column[jobPod]{header: "NAMESPACE", value: func(p jobPod) string { return p.Namespace }})
	}
	return columns
}

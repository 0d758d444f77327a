package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

type describeJobOptions struct {
	factory *Factory
	ledger  ledgerOptions
	output  *output
}

func newDescribeJobCmd(f *Factory) *cobra.Command {
	o := &describeJobOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "job NAME",
		Aliases: []string{"jobs"},
		Short:   "Show all about one job: what it asks, where it runs or why not, its pods and events",
		Example: "  gpuctl describe job qwen2-sft",
		Args:    requireOneArg(phrase.Textf("the name of one job")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeJob(cmd.Context(), o, jobName(args[0]))
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.output = describeOutput(cmd)
	o.ledger.addFlags(cmd.Flags())
	return cmd
}

func runDescribeJob(ctx context.Context, o *describeJobOptions, name string) error {
	namespace, err := o.factory.currentNamespace()
	if err != nil {
		return err
	}
	reader, err := o.factory.newReader()
	if err != nil {
		return err
	}
	details, err := reader.Details(ctx, inventory.JobQuery{Namespace: namespace, Name: name, Foreign: true})
	if err != nil {
		return err
	}
	if len(details) == 0 {
		return o.describeDeletedJob(ctx, namespace, name)
	}
	if err := reader.FillDevices(ctx, details); err != nil {
		return err
	}
	if err := readSegments(ctx, reader, details); err != nil {
		return err
	}
	if err := applyLeaderStatus(ctx, reader, details, o.factory.Now()); err != nil {
		return err
	}
	if o.output.format != "" {
		if len(details) == 1 {
			return writeEncoded(o.factory.IO.Out, o.output.format, details[0])
		}
		return writeEncoded(o.factory.IO.Out, o.output.format, list[inventory.JobDetail]{Items: details})
	}
	for i, detail := range details {
		if i > 0 {
			fmt.Fprintln(o.factory.IO.Out)
		}
		busy := o.jobEfficiency(ctx, &details[i])
		if err := describeJob(newDescription(o.factory.IO), detail, busy, o.factory.Now()); err != nil {
			return err
		}
	}
	return nil
}

// readSegments reads the placement of the segments of those jobs that have any.
func readSegments(ctx context.Context, reader *inventory.Reader, details []inventory.JobDetail) error {
	for i := range details {
		asked := submittedTopology(details[i].Submitted)
		if asked == nil || asked.Segment == 0 {
			continue
		}
		if err := reader.FillSegments(ctx, &details[i], int(asked.Segment), asked.Level); err != nil {
			return err
		}
	}
	return nil
}

// describeDeletedJob shows what the ledger knows of a deleted job.
func (o *describeJobOptions) describeDeletedJob(ctx context.Context, namespace, name string) error {
	shown, err := o.factory.describeFinished(ctx, &o.ledger, o.output.format, namespace, name)
	if err != nil {
		o.factory.IO.printErr("warning: the ledger is left out: %v", err)
	}
	if shown {
		return nil
	}
	return &inventory.NotFoundError{Namespace: namespace, Name: name}
}

// applyLeaderStatus notes on jobs that wait for the scheduler that there is no leader.
func applyLeaderStatus(ctx context.Context, reader *inventory.Reader, details []inventory.JobDetail, now time.Time) error {
	if !slices.ContainsFunc(details, func(d inventory.JobDetail) bool { return d.AwaitsScheduler() }) {
		return nil
	}
	leader, err := reader.Leader(ctx, now)
	if err != nil {
		return err
	}
	for i := range details {
		diagnosis.ReplaceByLeaderState(&details[i].Job, leader)
	}
	return nil
}

func describeJob(d *description, job inventory.JobDetail, busy *ledger.Efficiency, now time.Time) error {
	describeJobState(d, job, now)
	d.writeText("Utilization", efficiencyText(busy))
	d.writeSection("Asks")
	inner := &description{out: &indentWriter{out: d.out}, style: d.style, language: d.language}
	inner.writeField("Pool", job.Pool)
	inner.writeField("Priority", job.Priority)
	inner.writeField("Pods", strconv.Itoa(int(job.Desired)))
	inner.writeField("GPU type", d.language.Translate(gpuTypesOf(job.Job)))
	for _, resource := range slices.Sorted(maps.Keys(job.Container.Requests)) {
		inner.writeFieldf(resourceLabel(resource), "%s per pod", job.Container.Requests[resource])
	}
	describeTerms(inner, &job)
	inner.writeField("Image", job.Container.Image)
	inner.writeField("Command", strings.Join(slices.Concat(job.Container.Command, job.Container.Args), " "))
	inner.writeLines("Variables", localizeVariables(job.Container.Env, d.language))
	inner.writeLines("Mounts", localizeMessages(job.Container.Mounts, d.language))

	if err := describeRows(d, "Pods", job.Pods, podColumns(now)); err != nil {
		return err
	}
	if err := describeGPUs(d, &job); err != nil {
		return err
	}
	if len(job.Services) > 0 {
		d.writeSection("Access")
		for _, service := range job.Services {
			for _, hint := range accessHints(job, service) {
				fmt.Fprintln(d.out, indent+hint.Localize(d.language))
			}
		}
	}
	return describeRows(d, "Events", job.Events, eventColumns(now))
}

// localizeVariables localizes the variables of a container: the sources of those that have no literal value.
func localizeVariables(env []string, language phrase.Language) []string {
	out := slices.Clone(env)
	for i, variable := range env {
		name, source, from := strings.Cut(variable, " from ")
		if from && !strings.Contains(name, "=") {
			out[i] = phrase.Textf("%s from %s", name, phrase.FromEnglish(source)).Localize(language)
		}
	}
	return out
}

func resourceLabel(name string) string {
	switch name {
	case "cpu":
		return "CPU"
	case "memory":
		return "Memory"
	case names.ResourceGPU:
		return "GPUs"
	case names.ResourceSharedGPU:
		return "Shared GPUs"
	}
	if profile, ok := strings.CutPrefix(name, names.ResourceMIGPrefix); ok {
		return "MIG " + profile
	}
	return name
}

// describeJobState writes the identity and the state of the job.
func describeJobState(d *description, job inventory.JobDetail, now time.Time) {
	d.writeField("Name", job.Name)
	d.writeField("Namespace", job.Namespace)
	d.writeField("Kind", job.Kind)
	d.writeField("Description", job.Description)
	d.writeField("Object", strings.Trim(job.Object.Kind+"/"+job.Object.Name, "/"))
	status := string(job.Status)
	if paint := statusColor(job.Job); d.style.color {
		status = paint + status + colorReset
	}
	d.writeColoredField("Status", phrase.Textf("%s, %d of %d pods ready", status, job.Ready, job.Desired).Localize(d.language))
	describeArray(d, job.Array)
	if len(job.WaitsFor) > 0 { // a job that was released by hand starts on its own
		d.writeText("Starts when", inventory.EndingText(job.DependsOn, job.After))
	}
	d.writeField("Reason", job.Reason)
	d.writeField("Message", localizeMessage(job.Message, d.language))
	d.writeField("GPUs", formatNumber(job.GPUs))
	for i := range job.Broken {
		b := &job.Broken[i]
		text := phrase.Textf("GPU %d of node %s, under pod %s, %s%s. What to do: gpuctl -n %s why %s", b.Index, b.Node, b.Pod,
			b.Message, sinceText(b.Since, now), job.Namespace, job.Name)
		d.writeWrappedField("Broken", text.Localize(d.language))
	}
	d.writeField("Nodes", strings.Join(job.Nodes, ", "))
	d.writeLines("Segments", segmentLines(d, job.Segments))
	d.writeField("User", job.User)
	d.writeFieldf("Created", "%s", momentText(job.Created, now))
	if job.Started != nil {
		d.writeFieldf("Started", "%s", momentText(*job.Started, now))
	}
	if job.Restarts > 0 {
		d.writeField("Restarts", strconv.Itoa(int(job.Restarts)))
	}
	describeNotify(d, job.Notify, now)
	if job.Finished != nil {
		d.writeFieldf("Finished", "%s", momentText(*job.Finished, now))
	}
	if job.Finished != nil && job.Began != nil {
		d.writeFieldf("Lasted", "%s, from when its pods were asked for", formatAge(*job.Finished, *job.Began))
	}
}

// maxSegments is how many segments of a job are described individually.
const maxSegments = 64

// segmentLines describes the placement of a job's segments.
func segmentLines(d *description, segments []inventory.Segment) (lines []string) {
	for _, segment := range segments[:min(len(segments), maxSegments)] {
		where := phrase.Textf("%s", strings.Join(segment.Domains, ", "))
		if len(segment.Domains) == 0 {
			where = phrase.Textf("no place yet")
		}
		lines = append(lines, phrase.Textf("ranks %d to %d: %s", segment.First, segment.Last, where).Localize(d.language))
	}
	if more := len(segments) - len(lines); more > 0 {
		lines = append(lines, phrase.Textf("%sand %d more: -o json has all", "", more).Localize(d.language))
	}
	return lines
}

// describeArray describes the progress of a job's tasks.
func describeArray(d *description, array *inventory.Array) {
	if array == nil {
		return
	}
	d.writeFieldf("Tasks", "%d, at most %d at once: %s", array.Tasks, array.AtOnce, array.ProgressText())
	d.writeWrappedField("Failed tasks", array.FailedTasks)
}

func momentText(at, now time.Time) phrase.Text {
	return phrase.Textf("%s (%s ago)", at.UTC().Format(time.RFC3339), formatAge(now, at))
}

func podColumns(now time.Time) []column[inventory.Pod] {
	type pod = inventory.Pod
	return []column[pod]{
		{header: "NAME", value: func(p pod) string { return p.Name }},
		{header: "PHASE", value: func(p pod) string { return p.Phase }},
		{header: "READY", value: func(p pod) string { return strconv.FormatBool(p.Ready) }},
		{header: "RESTARTS", value: func(p pod) string { return strconv.Itoa(int(p.Restarts)) }},
		{header: "EXIT", value: func(p pod) string {
			if p.ExitCode == nil {
				return ""
			}
			return strconv.Itoa(int(*p.ExitCode))
		}},
		{header: "NODE", value: func(p pod) string { return p.Node }},
		{header: "AGE", value: func(p pod) string { return formatAge(now, p.Created) }},
		{header: "REASON", value: func(p pod) string { return p.Reason }},
	}
}

// heldGPU is a GPU that a pod holds.
type heldGPU struct {
	pod string
	gpu.Device
	profile, health string
}

// heldGPUs returns the GPUs and MIG slices that the pods of a job hold, pod by pod.
func heldGPUs(job *inventory.JobDetail) []heldGPU {
	var out []heldGPU
	health := map[string]string{} // by GPU UUID
	for i := range job.Broken {
		health[job.Broken[i].UUID] = job.Broken[i].Health
	}
	for i := range job.Pods {
		pod := &job.Pods[i]
		for _, device := range pod.GPUs {
			out = append(out, heldGPU{pod: pod.Name, Device: device, health: health[device.UUID]})
		}
		for _, slice := range pod.Slices {
			out = append(out, heldGPU{
				pod: pod.Name, Device: gpu.Device{UUID: slice.UUID, Index: slice.GPU}, profile: slice.Profile, health: health[slice.ParentUUID],
			})
		}
	}
	return out
}

// describeGPUs lists the GPUs of each pod as its programs see them. Columns that are empty for all of them are omitted.
func describeGPUs(d *description, job *inventory.JobDetail) error {
	rows := heldGPUs(job)
	columns := []column[heldGPU]{
		{header: "POD", value: func(g heldGPU) string { return g.pod }},
		{header: "GPU", value: func(g heldGPU) string { return strconv.Itoa(g.Index) }},
		{header: "UUID", value: func(g heldGPU) string {
			if g.IsDerived() {
				return ""
			}
			return g.UUID
		}},
	}
	if slices.ContainsFunc(rows, func(g heldGPU) bool { return g.profile != "" }) {
		columns = append(columns, column[heldGPU]{header: "MIG", value: func(g heldGPU) string { return g.profile }})
	}
	if slices.ContainsFunc(rows, func(g heldGPU) bool { return g.MemoryMiB > 0 }) {
		columns = append(columns, column[heldGPU]{header: "SHARE", value: func(g heldGPU) string { return fmt.Sprintf("%d MiB", g.MemoryMiB) }})
	}
	if len(job.Broken) > 0 {
		columns = append(columns, column[heldGPU]{
			header: "BROKEN", value: func(g heldGPU) string { return g.health }, color: func(heldGPU) string { return colorRed },
		})
	}
	shown := rows[:min(len(rows), maxListedGPUs)]
	if err := describeRows(d, "GPUs", shown, columns); err != nil || len(shown) == len(rows) {
		return err
	}
	d.writeWrapped(phrase.Textf("%sand %d more: -o json has all", indent, len(rows)-len(shown)).Localize(d.language), len(indent))
	return nil
}

// maxListedGPUs is how many GPUs of a job are described individually: eight nodes of eight.
const maxListedGPUs = 64

func eventColumns(now time.Time) []column[inventory.Event] {
	type event = inventory.Event
	return []column[event]{
		{header: "AGE", value: func(e event) string {
			if now.IsZero() {
				return strconv.Itoa(int(e.Count))
			}
			if e.Count > 1 {
				return fmt.Sprintf("%s (x%d)", formatAge(now, e.Last), e.Count)
			}
			return formatAge(now, e.Last)
		}},
		{header: "TYPE", spare: true, value: func(e event) string { return e.Type }, color: func(e event) string {
			if e.Type == "Normal" {
				return ""
			}
			return colorYellow
		}},
		{header: "REASON", value: func(e event) string { return e.Reason }},
		{header: "OBJECT", value: func(e event) string { return e.Object }},
		{header: "MESSAGE", spill: true, value: func(e event) string { return e.Message }},
	}
}

// accessHints says how to reach a service from inside the cluster, from outside, and from the user's own machine.
func accessHints(job inventory.JobDetail, service inventory.Service) []phrase.Text {
	if service.ClusterIP == corev1.ClusterIPNone { // the ranks of a job find each other by it; it serves no page to open
		return []phrase.Text{phrase.Textf("between its pods:   %s.%s:%d", service.Name, job.Namespace, service.Port)}
	}
	hints := []phrase.Text{phrase.Textf("in the cluster:     http://%s.%s:%d", service.Name, job.Namespace, service.Port)}
	if service.NodePort != 0 {
		node := "NODE"
		if len(job.Nodes) > 0 {
			node = job.Nodes[0]
		}
		hints = append(hints, phrase.Textf("through a node:     http://%s:%d", node, service.NodePort))
	}
	return append(hints, phrase.Textf("from this machine:  gpuctl -n %s port-forward %s", job.Namespace, job.Name))
}

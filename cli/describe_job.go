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
	"g8s.host/gpu-scheduler/pkg/inventory"
)

type describeJobOptions struct {
	factory *Factory
	output  *output
}

func newDescribeJobCmd(f *Factory) *cobra.Command {
	o := &describeJobOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "job NAME",
		Aliases: []string{"jobs"},
		Short:   "Show all about one job: what it asks, where it runs or why it does not, its pods and events",
		Example: "  gpuctl describe job qwen2-sft",
		Args:    exactlyOne("the name of one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeJob(cmd.Context(), o, jobName(args[0]))
		},
		ValidArgsFunction: completeJobs(f),
	}
	o.output = describeOutput(cmd)
	return cmd
}

func runDescribeJob(ctx context.Context, o *describeJobOptions, name string) error {
	namespace, err := o.factory.namespace()
	if err != nil {
		return err
	}
	reader, err := o.factory.reader()
	if err != nil {
		return err
	}
	details, err := reader.Details(ctx, inventory.JobQuery{Namespace: namespace, Name: name})
	if err != nil {
		return err
	}
	if len(details) == 0 {
		return &inventory.NotFoundError{Namespace: namespace, Name: name}
	}
	if o.output.format != "" {
		if len(details) == 1 {
			return encode(o.factory.IO.Out, o.output.format, details[0])
		}
		return encode(o.factory.IO.Out, o.output.format, list[inventory.JobDetail]{Items: details})
	}
	for i, detail := range details {
		if i > 0 {
			fmt.Fprintln(o.factory.IO.Out)
		}
		if err := describeJob(newDescription(o.factory.IO), detail, o.factory.Now()); err != nil {
			return err
		}
	}
	return nil
}

func describeJob(d *description, job inventory.JobDetail, now time.Time) error {
	describeJobState(d, job, now)
	d.section("Asks")
	inner := &description{out: &indented{out: d.out}, style: d.style}
	inner.line("Pool", job.Pool)
	inner.line("Priority", job.Priority)
	inner.line("Pods", strconv.Itoa(int(job.Desired)))
	inner.line("GPU type", gpuTypesOf(job.Job))
	for _, resource := range slices.Sorted(maps.Keys(job.Container.Requests)) {
		inner.line(resourceLabel(resource), job.Container.Requests[resource]+" per pod")
	}
	inner.line("Image", job.Container.Image)
	inner.line("Command", strings.Join(slices.Concat(job.Container.Command, job.Container.Args), " "))
	inner.lines("Variables", job.Container.Env)
	inner.lines("Mounts", job.Container.Mounts)

	if err := describeRows(d, "Pods", job.Pods, podColumns(now)); err != nil {
		return err
	}
	if len(job.Services) > 0 {
		d.section("Access")
		for _, service := range job.Services {
			for _, hint := range accessHints(job, service) {
				fmt.Fprintln(d.out, indent+hint)
			}
		}
	}
	return describeRows(d, "Events", job.Events, eventColumns(now))
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
	return name
}

// describeJobState is who the job is and how it fares.
func describeJobState(d *description, job inventory.JobDetail, now time.Time) {
	d.line("Name", job.Name)
	d.line("Namespace", job.Namespace)
	d.line("Kind", job.Kind)
	d.line("Description", job.Description)
	d.line("Object", strings.Trim(job.Object.Kind+"/"+job.Object.Name, "/"))
	status := string(job.Status)
	if paint := statusColor(job.Job); d.style.color {
		status = paint + status + colorReset
	}
	d.painted("Status", fmt.Sprintf("%s, %d of %d pods ready", status, job.Ready, job.Desired))
	d.line("Reason", job.Reason)
	d.line("Message", job.Message)
	d.line("GPUs", number(job.GPUs))
	d.line("Nodes", strings.Join(job.Nodes, ", "))
	d.line("Created", moment(job.Created, now))
	if job.Finished != nil {
		d.line("Finished", moment(*job.Finished, now))
	}
}

func moment(at, now time.Time) string {
	return fmt.Sprintf("%s (%s ago)", at.UTC().Format(time.RFC3339), age(now, at))
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
		{header: "AGE", value: func(p pod) string { return age(now, p.Created) }},
		{header: "REASON", value: func(p pod) string { return p.Reason }},
	}
}

func eventColumns(now time.Time) []column[inventory.Event] {
	type event = inventory.Event
	return []column[event]{
		{header: "AGE", value: func(e event) string {
			if now.IsZero() {
				return strconv.Itoa(int(e.Count))
			}
			if e.Count > 1 {
				return fmt.Sprintf("%s (x%d)", age(now, e.Last), e.Count)
			}
			return age(now, e.Last)
		}},
		{header: "TYPE", value: func(e event) string { return e.Type }, color: func(e event) string {
			if e.Type == "Normal" {
				return ""
			}
			return colorYellow
		}},
		{header: "REASON", value: func(e event) string { return e.Reason }},
		{header: "OBJECT", value: func(e event) string { return e.Object }},
		{header: "MESSAGE", value: func(e event) string { return e.Message }},
	}
}

// accessHints tells how to reach a service from inside the cluster, from outside, and from the user's own machine.
func accessHints(job inventory.JobDetail, service inventory.Service) []string {
	if service.ClusterIP == corev1.ClusterIPNone { // the ranks of a job find each other by it; it is no page to open
		return []string{fmt.Sprintf("between its pods:   %s.%s:%d", service.Name, job.Namespace, service.Port)}
	}
	hints := []string{fmt.Sprintf("in the cluster:     http://%s.%s:%d", service.Name, job.Namespace, service.Port)}
	if service.NodePort != 0 {
		node := "NODE"
		if len(job.Nodes) > 0 {
			node = job.Nodes[0]
		}
		hints = append(hints, fmt.Sprintf("through a node:     http://%s:%d", node, service.NodePort))
	}
	return append(hints, fmt.Sprintf("from this machine:  gpuctl -n %s port-forward %s", job.Namespace, job.Name))
}

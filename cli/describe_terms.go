package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// describeTerms says how close together a job's pods lie, how long and how often it may run and do nothing, how long it is
// kept, and which taints it accepts.
func describeTerms(d *description, job *inventory.JobDetail) {
	if job.Meta != nil {
		d.line("Preset", job.Meta.Annotations[names.AnnotationPreset])
	}
	d.line("Topology", topologyOf(job.Submitted))
	if job.TimeLimit > 0 {
		d.line("Time limit", workload.DurationText(job.TimeLimit))
	}
	if job.Meta != nil {
		if idle, err := time.ParseDuration(job.Meta.Annotations[names.AnnotationIdleTimeout]); err == nil && idle > 0 {
			d.line("Idle timeout", workload.DurationText(idle))
		}
	}
	if job.Retries != nil {
		d.line("Retries", strconv.Itoa(int(*job.Retries)))
	}
	if job.TTL != nil {
		d.line("Kept for", workload.DurationText(*job.TTL))
	}
	if job.Template == nil {
		return
	}
	if long, ok := names.MinRuntimeOf(job.Template.Annotations); ok {
		d.line("Min runtime", workload.DurationText(long))
	}
	if long, ok := names.CheckpointGraceOf(job.Template.Annotations); ok {
		d.told("Checkpoint", "%s to save its work before it is preempted", workload.DurationText(long))
	}
	var taints []string
	for i := range job.Template.Spec.Tolerations {
		taints = append(taints, tolerated(&job.Template.Spec.Tolerations[i]))
	}
	d.line("Tolerates", strings.Join(taints, ", "))
}

// topologyIn is what the YAML of a job asks, nil for nothing.
func topologyIn(submitted string) *workload.Topology {
	docs, _ := workload.ParseFilled([]byte(submitted))
	if len(docs) != 1 || docs[0].Job == nil {
		return nil
	}
	return docs[0].Job.Resources.Topology
}

// topologyOf is how the nodes of a job lie, as the YAML that it was made from says.
func topologyOf(submitted string) string {
	asked := topologyIn(submitted)
	if asked == nil {
		return ""
	}
	text := fmt.Sprintf("one %s, %s", asked.Level, asked.Mode)
	if asked.Segment > 0 {
		text = fmt.Sprintf("one %s for each segment of %d, %s", asked.Level, asked.Segment, asked.Mode)
	}
	if asked.Wait != nil {
		text += ", waited for " + workload.DurationText(*asked.Wait)
	}
	return text
}

// tolerated is a taint that pods accept, as kubectl writes it.
func tolerated(t *corev1.Toleration) string {
	out := cmp.Or(t.Key, "every taint")
	if t.Value != "" {
		out += "=" + t.Value
	}
	if t.Effect != "" {
		out += ":" + string(t.Effect)
	}
	if t.TolerationSeconds != nil {
		out += fmt.Sprintf(" for %ds", *t.TolerationSeconds)
	}
	return out
}

package cli

import (
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// describeTerms describes the job's topology, its time limits, idle timeout, retries and TTL, and the taints that it tolerates.
func describeTerms(d *description, job *inventory.JobDetail) {
	if job.Meta != nil {
		d.line("Preset", job.Meta.Annotations[names.AnnotationPreset])
	}
	d.says("Topology", topologyOf(job.Submitted))
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
	taints := make([]phrase.Text, 0, len(job.Template.Spec.Tolerations))
	for i := range job.Template.Spec.Tolerations {
		taints = append(taints, tolerated(&job.Template.Spec.Tolerations[i]))
	}
	d.says("Tolerates", phrase.Join(taints, phrase.Of(", ")))
}

// topologyIn returns the topology that the YAML of a job requests, or nil.
func topologyIn(submitted string) *workload.Topology {
	docs, _ := workload.ParseFilled([]byte(submitted))
	if len(docs) != 1 || docs[0].Job == nil {
		return nil
	}
	return docs[0].Job.Resources.Topology
}

// topologyOf describes the topology that the job's submitted YAML requests.
func topologyOf(submitted string) phrase.Text {
	asked := topologyIn(submitted)
	if asked == nil {
		return nil
	}
	text := phrase.Of("one %s, %s", asked.Level, asked.Mode)
	if asked.Segment > 0 {
		text = phrase.Of("one %s for each segment of %d, %s", asked.Level, asked.Segment, asked.Mode)
	}
	if asked.Wait != nil {
		text = text.And(", waited for %s", workload.DurationText(*asked.Wait))
	}
	return text
}

// tolerated formats a toleration as kubectl does.
func tolerated(t *corev1.Toleration) phrase.Text {
	out := phrase.Quote(t.Key)
	if t.Key == "" {
		out = phrase.Of("every taint")
	}
	if t.Value != "" {
		out = out.And("=%s", t.Value)
	}
	if t.Effect != "" {
		out = out.And(":%s", t.Effect)
	}
	if t.TolerationSeconds != nil {
		out = out.And(" for %ds", *t.TolerationSeconds)
	}
	return out
}

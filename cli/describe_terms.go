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
		d.writeField("Preset", job.Meta.Annotations[names.AnnotationPreset])
	}
	d.writeText("Topology", topologyText(job.Submitted))
	if job.TimeLimit > 0 {
		d.writeField("Time limit", workload.DurationText(job.TimeLimit))
	}
	if job.Meta != nil {
		if idle, err := time.ParseDuration(job.Meta.Annotations[names.AnnotationIdleTimeout]); err == nil && idle > 0 {
			d.writeField("Idle timeout", workload.DurationText(idle))
		}
	}
	if job.Retries != nil {
		d.writeField("Retries", strconv.Itoa(int(*job.Retries)))
	}
	if job.TTL != nil {
		d.writeField("Kept for", workload.DurationText(*job.TTL))
	}
	if job.Template == nil {
		return
	}
	if long, ok := names.MinRuntimeOf(job.Template.Annotations); ok {
		d.writeField("Min runtime", workload.DurationText(long))
	}
	if long, ok := names.CheckpointGraceOf(job.Template.Annotations); ok {
		d.writeFieldf("Checkpoint", "%s to save its work before it is preempted", workload.DurationText(long))
	}
	taints := make([]phrase.Text, 0, len(job.Template.Spec.Tolerations))
	for i := range job.Template.Spec.Tolerations {
		taints = append(taints, tolerationText(&job.Template.Spec.Tolerations[i]))
	}
	d.writeText("Tolerates", phrase.Join(taints, phrase.Textf(", ")))
}

// submittedTopology returns the topology that the YAML of a job requests, or nil.
func submittedTopology(submitted string) *workload.Topology {
	docs, _ := workload.ParseFilled([]byte(submitted))
	if len(docs) != 1 || docs[0].Job == nil {
		return nil
	}
	return docs[0].Job.Resources.Topology
}

// topologyText describes the topology that the job's submitted YAML requests.
func topologyText(submitted string) phrase.Text {
	asked := submittedTopology(submitted)
	if asked == nil {
		return nil
	}
	text := phrase.Textf("one %s, %s", asked.Level, asked.Mode)
	if asked.Segment > 0 {
		text = phrase.Textf("one %s for each segment of %d, %s", asked.Level, asked.Segment, asked.Mode)
	}
	if asked.Wait != nil {
		text = text.Addf(", waited for %s", workload.DurationText(*asked.Wait))
	}
	return text
}

// tolerationText formats a toleration as kubectl does.
func tolerationText(t *corev1.Toleration) phrase.Text {
	out := phrase.Quote(t.Key)
	if t.Key == "" {
		out = phrase.Textf("every taint")
	}
	if t.Value != "" {
		out = out.Addf("=%s", t.Value)
	}
	if t.Effect != "" {
		out = out.Addf(":%s", t.Effect)
	}
	if t.TolerationSeconds != nil {
		out = out.Addf(" for %ds", *t.TolerationSeconds)
	}
	return out
}

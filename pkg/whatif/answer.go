package whatif

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// NewAnswer converts an outcome to an answer about jobs, using the state of the cluster.
func NewAnswer(cluster *snapshot.Snapshot, outcome *Outcome, policy string) Answer {
	answer := Answer{Jobs: []Job{}, Evicted: outcome.Evicted, Policy: policy}
	for _, pods := range groupByJob(outcome.Pods) {
		facts := diagnosis.Facts{Cluster: *cluster, Pods: pods, Simulated: true}
		facts.Job.Namespace, facts.Job.Name = pods[0].Namespace, pods[0].Labels[names.LabelJob]
		facts.Job.Kind = pods[0].Labels[names.LabelJobType]
		facts.Job.Status = inventory.StatusPending
		job := Job{Starts: !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" })}
		if job.Starts {
			facts.Job.Status = inventory.StatusRunning
		}
		facts.Records = podRecords(outcome.Records, pods)
		job.Report = diagnosis.Diagnose(facts)
		if job.Starts { // the job does not run, it only would
			job.Status, job.Cause = inventory.StatusPending, ""
		}
		answer.Jobs = append(answer.Jobs, job)
	}
	return answer
}

// groupByJob groups pods by job, in the order of the jobs.
func groupByJob(pods []corev1.Pod) [][]corev1.Pod {
	type key struct{ namespace, kind, name string }
	var all [][]corev1.Pod
	at := map[key]int{}
	for _, pod := range pods {
		k := key{pod.Namespace, pod.Labels[names.LabelJobType], pod.Labels[names.LabelJob]}
		i, known := at[k]
		if !known {
			i = len(all)
			at[k] = i
			all = append(all, nil)
		}
		all[i] = append(all[i], pod)
	}
	return all
}

func podRecords(records []explain.Record, pods []corev1.Pod) []explain.Record {
	var own []explain.Record
	for _, record := range records {
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Namespace == record.Namespace && pod.Name == record.Name }) {
			own = append(own, record)
		}
	}
	return own
}

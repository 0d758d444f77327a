package diagnosis

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// KindPod is the kind in the report on a pod that belongs to no job.
const KindPod = "pod"

// FindPod returns a pod, whether or not gpuctl created it; nil if there is none, or the user may not read it.
func FindPod(ctx context.Context, client kubernetes.Interface, namespace, name string) (*corev1.Pod, error) {
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return nil, nil
	case err != nil:
		return nil, phrase.Errorf("reading pod %s: %w", name, err)
	}
	return pod, nil
}

// JobNameOfPod returns the job of a pod, which explains it; "" if it belongs to none, or to a workload that another scheduler places.
func JobNameOfPod(pod *corev1.Pod) string {
	if gang.IsMadeByGpuctl(pod) && pod.Labels[names.LabelJobType] == "" || !gang.IsMadeByGpuctl(pod) && !names.IsOurScheduler(pod.Spec.SchedulerName) {
		return ""
	}
	return gang.WorkloadOf(pod).JobName()
}

// OtherSchedulerError reports that another scheduler places the pod.
type OtherSchedulerError struct{ Namespace, Pod, Scheduler string }

func (e *OtherSchedulerError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *OtherSchedulerError) Message() phrase.Text {
	return phrase.Textf("pod %s is placed by the scheduler %s, which says itself why it waits: kubectl -n %s describe pod %s",
		e.Pod, e.Scheduler, e.Namespace, e.Pod)
}

// ReadPod returns the facts about a pod that belongs to no job. A pod of another scheduler is an [OtherSchedulerError], except pods with GPUs that
// name no scheduler, which are meant for ours.
func ReadPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, now time.Time) (*Facts, error) {
	if scheduler := pod.Spec.SchedulerName; !names.IsOurScheduler(scheduler) && !isUnnamed(pod) {
		return nil, &OtherSchedulerError{Namespace: pod.Namespace, Pod: pod.Name, Scheduler: scheduler}
	}
	cluster, err := snapshot.Read(ctx, client, ClusterQueries(now)...)
	if err != nil {
		return nil, err
	}
	facts := &Facts{Job: inventory.PodDetail(pod, KindPod), Pods: []corev1.Pod{*pod}, Cluster: *cluster}
	if facts.Job.RunsWhole() || isEnded(facts.Job.Status) {
		return facts, nil
	}
	facts.Space, err = readSpace(ctx, client, pod.Namespace, facts)
	return facts, err
}

// DiagnosePod is [Diagnose] for such a pod. It keeps only the steps that are not about a job of gpuctl, since the remedy belongs where the pod was
// created.
func DiagnosePod(f Facts) Report {
	report := Diagnose(f)
	own := 0 // our scheduler's first finding
	if pod := &f.Pods[0]; isUnnamed(pod) && !f.Job.RunsWhole() && f.Job.Status != inventory.StatusSucceeded {
		report.Findings = append(singleFinding(unnamedScheduler(&f, pod)), withoutOtherScheduler(report.Findings)...)
		report.Cause, own = report.Findings[0].Cause, 1
	}
	for i := range report.Findings {
		report.Findings[i].keepSteps(func(step Step) bool { return !isOfJob(step) })
	}
	if len(report.Findings) > own {
		finding := &report.Findings[own]
		finding.Steps = append(pinnedNodeSteps(&f), finding.Steps...)
		*finding = finding.WithText()
	}
	return report
}

// keepSteps drops the other steps of a finding.
func (f *Finding) keepSteps(keep func(Step) bool) {
	f.Steps = slices.DeleteFunc(slices.Clone(f.Steps), func(step Step) bool { return !keep(step) })
	f.Advice = nil
	*f = f.WithText()
}

// isOfJob reports whether a step changes a job of gpuctl's, or its YAML.
func isOfJob(step Step) bool {
	return step.Kind != reason.KindPod && (strings.HasPrefix(step.Command, "gpuctl ") || slices.Contains([]reason.Action{
		reason.SetField, reason.Move, reason.SetPriority, reason.Resume, reason.Retry, reason.Cancel, reason.Resubmit,
		reason.CreateAgain, reason.UseNamespace, reason.DeletePod,
	}, step.Action))
}

// pinnedNodeSteps is the remedy for a pod that selects a node of another pool than its own by name.
func pinnedNodeSteps(f *Facts) []Step {
	pod := &f.Pods[0]
	name := pod.Spec.NodeSelector[corev1.LabelHostname]
	if affinity := pod.Spec.Affinity; name == "" && affinity != nil && affinity.NodeAffinity != nil {
		name = selectedHost(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
	at := slices.IndexFunc(f.Cluster.Nodes, func(node corev1.Node) bool { return name != "" && node.Labels[corev1.LabelHostname] == name })
	if pod.Spec.NodeName != "" || at < 0 {
		return nil
	}
	node := &f.Cluster.Nodes[at]
	pool := node.Labels[names.LabelPool]
	if pool == "" || pool == gpu.PodPool(pod) {
		return nil
	}
	return []Step{{
		Action: reason.Resubmit, Field: "spec.nodeSelector", Value: names.LabelPool + "=" + pool, Kind: "Node", Name: node.Name,
		Message: phrase.Textf("node %s is in pool %s, and the pod is for pool %s: give it the node selector %s: %s as well",
			node.Name, pool, gpu.PodPool(pod), names.LabelPool, pool),
	}}
}

// selectedHost returns the only node that a node selector names, "" if it names none or several.
func selectedHost(selector *corev1.NodeSelector) string {
	if selector == nil || len(selector.NodeSelectorTerms) != 1 {
		return ""
	}
	for _, e := range selector.NodeSelectorTerms[0].MatchExpressions {
		if e.Key == corev1.LabelHostname && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}

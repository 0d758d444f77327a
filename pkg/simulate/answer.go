package simulate

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

// Answer decides where a workload would go if it came now, in order, before all other waiting pods.
func Answer(ctx context.Context, question *whatif.Question, candidate Candidate) (*whatif.Outcome, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cluster := Cluster{}
	for i := range question.Nodes {
		cluster.Nodes = append(cluster.Nodes, &question.Nodes[i])
	}
	for i := range question.Pods {
		cluster.Pods = append(cluster.Pods, &question.Pods[i])
	}
	for i := range question.Reservations {
		cluster.Reservations = append(cluster.Reservations, shiftFromZero(&question.Reservations[i], question.Now))
	}
	for i := range question.Quotas {
		cluster.Quotas = append(cluster.Quotas, &question.Quotas[i])
	}
	var objects []runtime.Object
	for i, raw := range question.Workload {
		decoded, err := decodeObject(raw)
		if err != nil {
			return nil, fmt.Errorf("reading object %d of the workload: %w", i, err)
		}
		objects = append(objects, decoded...)
	}
	arrivals, err := collectArrivals(objects, cluster)
	if err != nil {
		return nil, err
	}
	cluster.Groups = collectGroups(cluster, arrivals)
	options := Options{Explain: explain.NewRecorder(explain.DefaultLimits)}
	engine, err := newEngine(ctx, candidate.Config, cluster, options)
	if err != nil {
		return nil, fmt.Errorf("starting the scheduler: %w", err)
	}
	for i := range arrivals { // all members of a gang exist before the first is tried
		if err := engine.addPendingPod(arrivals[i].Pod); err != nil {
			return nil, err
		}
	}
	replay := newReplay(engine, cluster, arrivals, candidate.Name, options)
	for i := range arrivals {
		if err := replay.handleArrival(ctx, &arrivals[i]); err != nil {
			return nil, err
		}
	}
	return replay.buildOutcome(arrivals, options.Explain), nil
}

// shiftFromZero shifts a reservation by the difference between now and the zero time.
func shiftFromZero(r *names.GPUReservation, now time.Time) *names.GPUReservation {
	out := r.DeepCopy()
	out.Spec.From = metav1.NewTime(time.Time{}.Add(r.Spec.From.Sub(now)))
	out.Spec.To = metav1.NewTime(time.Time{}.Add(r.Spec.To.Sub(now)))
	return out
}

// buildOutcome collects the result of arrivals.
func (r *replay) buildOutcome(arrivals []Arrival, records *explain.Recorder) *whatif.Outcome {
	out := &whatif.Outcome{Pods: []corev1.Pod{}, Records: []explain.Record{}}
	for i := range arrivals {
		pod := r.entries[arrivals[i].Pod.UID]
		if pod.bound != nil {
			out.Pods = append(out.Pods, *pod.bound)
		} else {
			out.Pods = append(out.Pods, *unschedulablePod(pod))
		}
		if record, ok := records.Pod(pod.Pod.Namespace, pod.Pod.Name); ok {
			out.Records = append(out.Records, record)
		}
	}
	for _, eviction := range r.measure.result.Evictions {
		out.Evicted = append(out.Evicted, eviction.Pod)
	}
	return out
}

// unschedulablePod returns an unschedulable pod as kube-scheduler leaves it.
func unschedulablePod(pod *entry) *corev1.Pod {
	waits := pod.Pod.DeepCopy()
	waits.Status.Phase = corev1.PodPending
	waits.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: pod.verdict,
	}}
	return waits
}

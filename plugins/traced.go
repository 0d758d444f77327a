package plugins

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Trace records a span for each choice of a node. It is called once, after [Wrap] and before the scheduler runs.
func Trace(sched *scheduler.Scheduler, tracer trace.Tracer) {
	sched.SchedulePod = traceSchedule(sched.SchedulePod, tracer)
}

// traceSchedule records a span for each choice of a node. The reason for a failure is only in the pod's condition, which is readable by those who may
// read the pod.
func traceSchedule(schedule schedulePod, tracer trace.Tracer) schedulePod {
	return func(ctx context.Context, profile framework.Framework, cs fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		ctx, span := tracer.Start(ctx, "schedule")
		defer span.End()
		result, err := schedule(ctx, profile, cs, pod)
		if !span.IsRecording() {
			return result, err
		}
		span.SetAttributes(
			attribute.String("k8s.namespace.name", pod.Pod.Namespace), attribute.String("k8s.pod.name", pod.Pod.Name),
			attribute.String("k8s.pod.uid", string(pod.Pod.UID)), attribute.String("gpu_scheduler.profile", profile.ProfileName()),
		)
		var unfit *framework.FitError
		switch {
		case err == nil:
			span.SetAttributes(
				attribute.String("gpu_scheduler.result", "scheduled"), attribute.String("k8s.node.name", result.SuggestedHost),
				attribute.Int("gpu_scheduler.nodes.evaluated", result.EvaluatedNodes),
				attribute.Int("gpu_scheduler.nodes.feasible", result.FeasibleNodes),
			)
		case errors.As(err, &unfit):
			span.SetAttributes(attribute.String("gpu_scheduler.result", "unschedulable"))
		default:
			span.SetAttributes(attribute.String("gpu_scheduler.result", "error"))
			span.SetStatus(codes.Error, "")
		}
		return result, err
	}
}

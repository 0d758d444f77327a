// Package traced records a span for each reconciliation if tracing is on.
package traced

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// scope is the instrumentation scope of spans.
const scope = "g8s.host/gpu-scheduler/pkg/controller"

// reconciler records a span for each call.
type reconciler struct {
	name   string
	inner  reconcile.Reconciler
	tracer trace.Tracer
}

// NewReconciler wraps inner with a span per call, named by the controller. Errors appear only in the log: they may contain text of a cloud or a user.
func NewReconciler(name string, inner reconcile.Reconciler) reconcile.Reconciler {
	return &reconciler{name: name, inner: inner, tracer: otel.Tracer(scope)}
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	ctx, span := r.tracer.Start(ctx, "reconcile "+r.name)
	defer span.End()
	result, err := r.inner.Reconcile(ctx, request)
	if !span.IsRecording() {
		return result, err //nolint:wrapcheck // it is the controller's own
	}
	span.SetAttributes(
		attribute.String("gpu_controller.name", r.name),
		attribute.String("k8s.namespace.name", request.Namespace),
		attribute.String("k8s.object.name", request.Name),
		attribute.Float64("gpu_controller.again_after_seconds", result.RequeueAfter.Seconds()),
	)
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	return result, err //nolint:wrapcheck // it is the controller's own
}

// Package traced has each look of a controller at an object leave a span, where tracing is on.
package traced

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// scope is what spans are told to come from.
const scope = "g8s.host/gpu-scheduler/pkg/controller"

// reconciler is one whose calls leave spans.
type reconciler struct {
	name   string
	inner  reconcile.Reconciler
	tracer trace.Tracer
}

// Reconciler is inner, with a span of each call under the name of its controller. What an error says is in the log alone: it may
// hold words of a cloud or of a user.
func Reconciler(name string, inner reconcile.Reconciler) reconcile.Reconciler {
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

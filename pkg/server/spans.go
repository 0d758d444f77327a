package server

import (
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// spanScope is the instrumentation scope of spans.
const spanScope = "g8s.host/gpu-scheduler/pkg/server"

// spans starts a span for each request if tracing is on.
type spans struct{ tracer trace.Tracer }

func newSpans() spans { return spans{tracer: otel.Tracer(spanScope)} }

// beginSpan starts the span of a request, named by method and route and never by path, which contains names and queries. It links the caller's trace,
// which does not decide about sampling: otherwise a caller could have all its requests exported.
func (s spans) beginSpan(r *http.Request, route string) (*http.Request, trace.Span) {
	method := methodLabel(r.Method)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithNewRoot()}
	if caller := callerTrace(r); caller.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: caller}))
	}
	ctx, span := s.tracer.Start(r.Context(), method+" "+route, options...)
	if !span.IsRecording() {
		return r, span
	}
	span.SetAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route),
		attribute.String("gpuctl.request_id", requestID(ctx)),
	)
	return r.WithContext(ctx), span
}

// recordStatus records the status of the answer.
func recordStatus(span trace.Span, status int) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(otelcodes.Error, "")
	}
}

// callerTrace returns the trace context of a request without its trace state, in which callers may write anything.
func callerTrace(r *http.Request) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return trace.SpanContextFromContext(ctx).WithTraceState(trace.TraceState{})
}

package server

import (
	"net/http"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	otelcodes "go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// spanScope is what spans are told to come from.
const spanScope = "g8s.host/gpu-scheduler/pkg/server"

// spans begins one for each request, where tracing is on.
type spans struct{ tracer trace.Tracer }

func newSpans() spans { return spans{tracer: otel.Tracer(spanScope)} }

// begin begins that of a request, under its method and route and never its path, in which names and queries are. The trace
// that the caller is in is linked, and does not decide: a caller could have each request of theirs sent.
func (s spans) begin(r *http.Request, route string) (*http.Request, trace.Span) {
	method := methodLabel(r.Method)
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindServer), trace.WithNewRoot()}
	if caller := callersTrace(r); caller.IsValid() {
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

// noteStatus notes how a request was answered.
func noteStatus(span trace.Span, status int) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= http.StatusInternalServerError {
		span.SetStatus(otelcodes.Error, "")
	}
}

// callersTrace is the trace that a request says it is of, without the state that its tools may write what they like in.
func callersTrace(r *http.Request) trace.SpanContext {
	ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	return trace.SpanContextFromContext(ctx).WithTraceState(trace.TraceState{})
}

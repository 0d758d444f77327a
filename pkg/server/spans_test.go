package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
	otelcodes "go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/client-go/rest"
)

// traced asks a server, of which the API server does not answer, and returns the spans that it left.
func traced(t *testing.T, sampler sdktrace.Sampler, ask ...*http.Request) tracetest.SpanStubs {
	t.Helper()
	seen := tracetest.NewInMemoryExporter()
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(seen), sdktrace.WithSampler(sdktrace.ParentBased(sampler))))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	s, err := New(&rest.Config{Host: "http://127.0.0.1:1"}, Options{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, request := range ask {
		s.Handler().ServeHTTP(httptest.NewRecorder(), request)
	}
	return seen.GetSpans()
}

// secretRequest has a secret wherever a request may have one.
func secretRequest(t *testing.T, secret string) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, Root+"/jobs/"+secret+"/explain?token="+secret, nil)
	for header, value := range map[string]string{
		"Authorization": "Bearer " + secret, "Cookie": "session=" + secret, "X-Api-Key": secret, "User-Agent": secret,
		"Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate": "a=" + secret, "Baggage": "a=" + secret,
	} {
		r.Header.Set(header, value)
	}
	return r
}

func TestRequestsLeaveSpansWithoutSecrets(t *testing.T) {
	const secret = "s3cr3tplanted9"
	odd := httptest.NewRequest(http.MethodGet, "/"+secret, nil)
	odd.Method = "PLANT" + secret
	spans := traced(t, sdktrace.AlwaysSample(), secretRequest(t, secret), odd, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if len(spans) != 3 {
		t.Fatalf("%d spans came, want 3", len(spans))
	}
	if said := fmt.Sprintf("%+v", spans); strings.Contains(said, secret) {
		t.Errorf("a span has the secret: %s", said)
	}
	first := spans[0]
	if !strings.HasPrefix(first.Name, "GET "+Root+"/jobs/{") || first.Status.Code != otelcodes.Error {
		t.Errorf("the first is %q, %v, want its route, and that it failed: nobody could be asked who calls", first.Name, first.Status)
	}
	said := fmt.Sprint(first.Attributes)
	for _, want := range []string{"http.response.status_code", "503", "gpuctl.request_id"} {
		if !strings.Contains(said, want) {
			t.Errorf("%s does not say %s", said, want)
		}
	}
	if first.Parent.IsValid() || len(first.Links) != 1 {
		t.Errorf("it is within %v and has %d links, want a trace of its own with a link to the caller's", first.Parent, len(first.Links))
	}
	if spans[1].Name != "other none" || spans[2].Status.Code != otelcodes.Unset {
		t.Errorf("the others are %q and %v", spans[1].Name, spans[2].Status)
	}
}

// TestCallersDecideNothing: that a caller's own trace is sent has none of ours sent.
func TestCallersDecideNothing(t *testing.T) {
	if spans := traced(t, sdktrace.NeverSample(), secretRequest(t, "s")); len(spans) != 0 {
		t.Errorf("%d spans came, want none", len(spans))
	}
}

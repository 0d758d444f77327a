package tracing

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// receiver is a collector in memory.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	mu   sync.Mutex
	sent []*tracev1.ResourceSpans
}

func (r *receiver) Export(_ context.Context, request *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, request.GetResourceSpans()...)
	return &collector.ExportTraceServiceResponse{}, nil
}

// names are those of all spans that came, after the names of their services.
func (r *receiver) names() (names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, resource := range r.sent {
		service := ""
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				service = attribute.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				names = append(names, service+": "+span.GetName())
			}
		}
	}
	return names
}

// listen starts a collector, and returns its address.
func listen(t *testing.T) (*receiver, string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r, server := &receiver{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	go func() { _ = server.Serve(listener) }() // it ends with the test
	t.Cleanup(server.Stop)
	return r, listener.Addr().String()
}

// start starts tracing by a file, "" for none. The test ends it, and finds what the collector's silence was complained of.
func start(t *testing.T, text string) (stop func(), complaints *atomic.Int32, err error) {
	t.Helper()
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	options := &Options{}
	if text != "" {
		options.file = filepath.Join(t.TempDir(), "tracing.yaml")
		if err := os.WriteFile(options.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	complaints = new(atomic.Int32)
	stop, err = options.Start(t.Context(), Program{Name: "a-program", Version: "v1", ReportError: func(error) { complaints.Add(1) }})
	return stop, complaints, err
}

func spans(count int) {
	tracer := otel.Tracer("test")
	for range count {
		_, span := tracer.Start(context.Background(), "work")
		span.End()
	}
}

func TestSpansAreSent(t *testing.T) {
	tests := map[string]struct {
		file string
		want int
	}{
		"all":                               {"samplingRatePerMillion: 1000000", 3},
		"as the API server's file has it":   {"apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nsamplingRatePerMillion: 1000000", 3},
		"none of a million":                 {"samplingRatePerMillion: 0", 0},
		"none without a file, which is off": {"", 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			receiver, address := listen(t)
			text := tc.file
			if text != "" {
				text += "\nendpoint: " + address
			}
			stop, complaints, err := start(t, text)
			if err != nil {
				t.Fatal(err)
			}
			spans(3)
			stop()
			got := receiver.names()
			if len(got) != tc.want || len(got) > 0 && got[0] != "a-program: work" || complaints.Load() != 0 {
				t.Errorf("%d spans came, %q, want %d; %d complaints", len(got), got, tc.want, complaints.Load())
			}
		})
	}
}

// TestADeadCollectorCostsSpansAlone: ten times as many as the queue holds are begun and ended, nobody waits, and it is said once.
func TestADeadCollectorCostsSpansAlone(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	stop, complaints, err := start(t, "samplingRatePerMillion: 1000000\nendpoint: "+address)
	if err != nil {
		t.Fatal(err)
	}
	spans(20_000)
	stop()
	if got := complaints.Load(); got == 0 || got > 2 { // of the batches once, and of what was left
		t.Errorf("%d complaints, want one or two", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	tests := map[string]struct{ file, want string }{
		"a rate that is missing":     {"endpoint: localhost:4317", "samplingRatePerMillion is missing"},
		"a rate above a million":     {"samplingRatePerMillion: 1000001", "less than or equal to one million"},
		"a rate that is negative":    {"samplingRatePerMillion: -1", "must be positive"},
		"an endpoint of HTTP":        {"samplingRatePerMillion: 1\nendpoint: http://a:4318", "unsupported scheme"},
		"a field that is misspelt":   {"samplingRate: 1", `unknown field "samplingRate"`},
		"another kind":               {"kind: Pod\nsamplingRatePerMillion: 1", "want a TracingConfiguration"},
		"no YAML":                    {"{", "yaml"},
		"a number that is too large": {"samplingRatePerMillion: 99999999999", "cannot unmarshal"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := start(t, tc.file)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "--tracing-config-file") {
				t.Errorf("got error %v, want one with %q that names the flag", err, tc.want)
			}
		})
	}
}

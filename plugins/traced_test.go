package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"g8s.host/gpu-scheduler/plugins"
)

// TestAttemptsLeaveSpans of a pod that has a place and of one that has none, without what users wrote into them.
func TestAttemptsLeaveSpans(t *testing.T) {
	const secret = "S3cr3tPlanted9"
	seen := tracetest.NewInMemoryExporter()
	c := newCluster(t, gpuNode("a", "pcie"), gpuNode("b", "pcie"))
	plugins.Wrap(c.scheduler, plugins.Options{})
	plugins.Trace(c.scheduler, sdktrace.NewTracerProvider(sdktrace.WithSyncer(seen)).Tracer("test"))
	placed := pod("placed", "1", "1").Annotation("example.com/token", secret).Obj()
	if _, err := c.try(placed); err != nil {
		t.Fatal(err)
	}
	if _, err := c.try(pod("too-large", "1", "9").Label("token", secret).Obj()); err == nil {
		t.Fatal("a pod of nine GPUs has a place on nodes of eight")
	}
	spans := seen.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans came, want one of each attempt", len(spans))
	}
	for i, want := range [][]string{{"placed", "scheduled", "k8s.node.name", "gpu-scheduler"}, {"too-large", "unschedulable"}} {
		said := fmt.Sprintf("%+v", spans[i])
		for _, word := range want {
			if !strings.Contains(said, word) {
				t.Errorf("span %d does not say %s: %s", i, word, said)
			}
		}
		if spans[i].Name != "schedule" || strings.Contains(said, secret) {
			t.Errorf("span %d is %q, or has what the user wrote: %s", i, spans[i].Name, said)
		}
	}
}

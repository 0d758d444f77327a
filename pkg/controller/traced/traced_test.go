package traced

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const planted = "S3cr3tPlanted9"

func TestReconcilesLeaveSpans(t *testing.T) {
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "ml", Name: "train"}}
	tests := map[string]struct {
		err  error
		want codes.Code
	}{
		"of one that did its work": {nil, codes.Unset},
		"of one that failed":       {errors.New("the key " + planted + " is refused"), codes.Error},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			seen := tracetest.NewInMemoryExporter()
			otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(seen)))
			t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
			result, err := NewReconciler("a-controller", reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				return reconcile.Result{RequeueAfter: time.Minute}, tc.err
			})).Reconcile(t.Context(), request)
			if !errors.Is(err, tc.err) || result.RequeueAfter != time.Minute {
				t.Errorf("got %v, %v, want what the controller said", result, err)
			}
			spans := seen.GetSpans()
			if len(spans) != 1 || spans[0].Name != "reconcile a-controller" || spans[0].Status.Code != tc.want {
				t.Fatalf("the spans are %+v", spans)
			}
			said := fmt.Sprint(spans[0].Attributes, spans[0].Status, spans[0].Events)
			if !strings.Contains(said, "train") || strings.Contains(said, planted) {
				t.Errorf("it says %s, want the object and not the error", said)
			}
		})
	}
}

// TestOffItIsTheReconciler: without tracing the call is passed on, and its context has no span that anybody records.
func TestOffItIsTheReconciler(t *testing.T) {
	called := false
	if _, err := NewReconciler("a", reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		called = true
		return reconcile.Result{}, nil
	})).Reconcile(t.Context(), reconcile.Request{}); err != nil || !called {
		t.Errorf("called: %t, %v", called, err)
	}
}

package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestAnInterruptBetweenTwoObjectsTakesTheFirstBack ends the context right after the Deployment was created.
func TestAnInterruptBetweenTwoObjectsTakesTheFirstBack(t *testing.T) {
	s := newSession(t)
	ctx, interrupt := context.WithCancel(t.Context())
	api, err := kube.NewWithWatch(admin, kube.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	interrupted := interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, api kube.WithWatch, object kube.Object, opts ...kube.CreateOption) error {
			defer interrupt()
			return api.Create(ctx, object, opts...)
		},
	})
	docs, diagnostics := workload.Parse("lab.yaml", []byte(notebook("lab")))
	if diagnostics.HasErrors() {
		t.Fatal(diagnostics)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: s.namespace})
	if err != nil {
		t.Fatal(err)
	}
	err = submit.NewClient(interrupted).Create(ctx, objects)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "nothing is left behind") {
		t.Errorf("the error is %v, want that of the context, and that nothing is left behind", err)
	}
	s.wantObjects(0)
}

// TestUndoingThatFailsIsTold refuses the deletion too: then the user must know what is left.
func TestUndoingThatFailsIsTold(t *testing.T) {
	s := newSession(t)
	api, err := kube.NewWithWatch(admin, kube.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	broken := interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, api kube.WithWatch, object kube.Object, opts ...kube.CreateOption) error {
			if _, ok := object.(*corev1.Service); ok {
				return refused
			}
			return api.Create(ctx, object, opts...)
		},
		Delete: func(context.Context, kube.WithWatch, kube.Object, ...kube.DeleteOption) error { return refused },
	})
	docs, _ := workload.Parse("lab.yaml", []byte(notebook("lab")))
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: s.namespace})
	if err != nil {
		t.Fatal(err)
	}
	err = submit.NewClient(broken).Create(t.Context(), objects)
	if err == nil || !strings.Contains(err.Error(), "delete it by hand") || !strings.Contains(err.Error(), "Deployment notebook-lab") {
		t.Errorf("the error is %v, want what to delete by hand", err)
	}
	s.wantObjects(1)
}

package server

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"g8s.host/gpu-scheduler/pkg/server/access"
)

// asCaller is a context of requests of a caller.
func asCaller(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, callerKey{}, &access.Caller{User: &user.DefaultInfo{Name: name}})
}

// TestAPlaceOutlivesNoRequest, whatever becomes of it.
func TestAPlaceOutlivesNoRequest(t *testing.T) {
	ends := map[string]func(leave func()){
		"it forgets to give it back": func(func()) {},
		"it gives it back":           func(leave func()) { leave() },
		"it panics":                  func(func()) { panic("x") },
		"it cuts the connection":     func(func()) { panic(http.ErrAbortHandler) },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s := &Server{options: Options{}.withDefaults(), metrics: newMetrics(), budgets: newBudgets(), open: newOpenStreams(1)}
			handler := s.withRequestID(s.withKeys(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				leave, err := acquireSlot(r.Context(), s.budgets.computing, 1)
				if err != nil {
					t.Error(err)
				}
				closed, err := s.open.openStream(r.Context())
				if err != nil {
					t.Error(err)
				}
				w.WriteHeader(http.StatusOK)
				end(func() { leave(); closed() })
			})))
			ctx, cancel := context.WithTimeout(asCaller(t.Context(), "ml"), 10*time.Second)
			defer cancel()
			for range 3 {
				serve(t, handler, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			}
		})
	}
}

// serve is net/http's, which keeps a panic that cuts a connection to itself.
func serve(t *testing.T, handler http.Handler, r *http.Request) {
	t.Helper()
	defer func() {
		if cause := recover(); cause != nil {
			if err, ok := cause.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				t.Errorf("panic: %v", cause)
			}
		}
	}()
	handler.ServeHTTP(httptest.NewRecorder(), r)
}

package server

import (
	"context"
	"net/http"
	"runtime"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type empty struct{}

type healthOutput struct {
	Body struct {
		Status    string    `json:"status" enum:"healthy"`
		Timestamp time.Time `json:"timestamp"`
	}
}

type readyOutput struct {
	Body struct {
		Status string `json:"status" enum:"ready"`
	}
}

type versionOutput struct {
	Body struct {
		Version    string `json:"version"`
		GoVersion  string `json:"goVersion"`
		Kubernetes string `json:"kubernetes,omitempty" doc:"The version of the API server, when it can be reached"`
	}
}

// readyTimeout bounds a readiness probe.
const readyTimeout = 3 * time.Second

// systemRoutes registers the routes for operators of the server.
func (s *Server) systemRoutes() {
	for _, path := range []string{"/healthz", "/health"} {
		registerRoute(s, route{method: http.MethodGet, path: path, id: map[string]string{"/healthz": "getHealthz", "/health": "getHealth"}[path], tag: "system", public: true,
			summary: "Whether the process lives"}, s.getHealth)
	}
	registerRoute(s, route{method: http.MethodGet, path: "/readyz", id: "getReady", tag: "system", public: true,
		summary: "Whether the server can answer: its memory is filled and the API server can be reached",
		fails:   []int{http.StatusServiceUnavailable}}, s.getReady)
	registerRoute(s, route{method: http.MethodGet, path: "/version", id: "getVersion", tag: "system", public: true,
		summary: "The versions of the server and of the cluster"}, s.getVersion)
	registerRoute(s, route{method: http.MethodGet, path: "/metrics", id: "getMetrics", tag: "system",
		summary: "Metrics of the server, for Prometheus",
		detail:  "Needs the right to get the path /metrics, as the metrics of Kubernetes do.",
		replies: map[int]*huma.Response{http.StatusOK: {
			Description: "Metrics in the text format of Prometheus",
			Content:     map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}}}, s.ownMetrics)
}

func (s *Server) getHealth(context.Context, *empty) (*healthOutput, error) {
	out := &healthOutput{}
	out.Body.Status, out.Body.Timestamp = "healthy", s.options.Now().UTC()
	return out, nil
}

func (s *Server) getReady(ctx context.Context, _ *empty) (*readyOutput, error) {
	if _, err := s.cache.latestView(); err != nil {
		return nil, err
	}
	if s.streams.Err() != nil {
		return nil, &unavailableError{"the server is stopping"}
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := s.own.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return nil, &unavailableError{"the API server of Kubernetes cannot be reached"}
	}
	out := &readyOutput{}
	out.Body.Status = "ready"
	return out, nil
}

func (s *Server) getVersion(context.Context, *empty) (*versionOutput, error) {
	out := &versionOutput{}
	out.Body.Version, out.Body.GoVersion = s.options.Version, runtime.Version()
	if info, err := s.own.Discovery().ServerVersion(); err == nil {
		out.Body.Kubernetes = info.GitVersion
	}
	return out, nil
}

func (s *Server) ownMetrics(ctx context.Context, _ *empty) (*huma.StreamResponse, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	if err := caller.CheckPathRight(ctx, "/metrics"); err != nil {
		return nil, err
	}
	handler := promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{})
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		r, w := humago.Unwrap(hctx)
		handler.ServeHTTP(w, r)
	}}, nil
}

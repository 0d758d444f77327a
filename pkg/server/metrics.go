package server

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/felixge/httpsnoop"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are those of the server itself.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	replayed prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpuctl_server_requests_total", Help: "Requests by route, method and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gpuctl_server_request_duration_seconds", Help: "How long answers took, streams left out.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"method", "route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gpuctl_server_requests_in_flight", Help: "Requests that are being answered, streams included.",
		}),
		replayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gpuctl_server_idempotent_replays_total", Help: "Answers that were given again for an Idempotency-Key.",
		}),
	}
	m.registry.MustRegister(m.requests, m.duration, m.inFlight, m.replayed,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// withMetrics counts requests and traces them with spans. It uses the pattern of the route and never the path: names would create an unbounded number of
// metrics.
func (s *Server) withMetrics(next http.Handler, mux *http.ServeMux) http.Handler {
	spans := newSpans()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		_, route, found := strings.Cut(pattern, " ")
		if !found {
			route = "none"
		}
		r, span := spans.beginSpan(r, route)
		defer span.End()
		s.metrics.inFlight.Inc()
		defer s.metrics.inFlight.Dec()
		result := httpsnoop.CaptureMetrics(next, w, r)
		if result.Code == http.StatusOK && w.Header().Get("Upgrade") != "" {
			result.Code = http.StatusSwitchingProtocols // that answer bypassed the writer
		}
		recordStatus(span, result.Code)
		s.metrics.requests.WithLabelValues(methodLabel(r.Method), route, strconv.Itoa(result.Code)).Inc()
		if w.Header().Get("Content-Type") != streamType && result.Code != http.StatusSwitchingProtocols {
			s.metrics.duration.WithLabelValues(methodLabel(r.Method), route).Observe(result.Duration.Seconds())
		}
	})
}

// methodLabel maps unknown methods to one label, so that they do not become metrics.
func methodLabel(method string) string {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodHead:
		return method
	}
	return "other"
}

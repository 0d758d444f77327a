package server

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

// metricsPath is the path of the metrics.
const metricsPath = "/metrics"

// metrics are those of the ledger itself.
type metrics struct {
	registry  *prometheus.Registry
	questions *prometheus.CounterVec
}

func newMetrics(from *store.Store) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		questions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpu_ledger_questions_total", Help: "Questions that were answered, by status.",
		}, []string{"status"}),
	}
	for _, status := range []int{http.StatusOK, http.StatusInternalServerError} { // so that the first failure is a step from 0
		m.questions.WithLabelValues(strconv.Itoa(status))
	}
	m.registry.MustRegister(m.questions, &followCollector{from}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// followCollector exports how far the cluster has been recorded.
type followCollector struct{ store *store.Store }

var _ prometheus.Collector = &followCollector{}

var (
	followedUntil = prometheus.NewDesc("gpu_ledger_followed_until_timestamp_seconds",
		"Until when the ledger has written down what happened in the cluster, in seconds of Unix time, by what is followed: "+
			"pods, jobs and deployments. It goes on at least once a minute also where nothing happens.", []string{"kind"}, nil)
	diskFull = prometheus.NewDesc("gpu_ledger_disk_full",
		"1 while the disk has no room, so that what is oldest of the namespaces with most is taken away.", nil, nil)
	fileBytes = prometheus.NewDesc("gpu_ledger_file_bytes", "Size of the ledger's file.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (*followCollector) Describe(out chan<- *prometheus.Desc) {
	out <- followedUntil
	out <- fileBytes
	out <- diskFull
}

// Collect implements [prometheus.Collector]. It omits what was never recorded, and everything if the file cannot be read.
func (f *followCollector) Collect(out chan<- prometheus.Metric) {
	full := 0.0
	if f.store.IsDiskFull() {
		full = 1
	}
	out <- prometheus.MustNewConstMetric(diskFull, prometheus.GaugeValue, full)
	marks, size, err := f.store.Marks()
	if err != nil {
		return
	}
	for of, mark := range marks {
		out <- prometheus.MustNewConstMetric(followedUntil, prometheus.GaugeValue, float64(mark.Time.UnixMilli())/1000, of)
	}
	out <- prometheus.MustNewConstMetric(fileBytes, prometheus.GaugeValue, float64(size))
}

// serveMetrics serves callers that the cluster allows to read the metrics of its components.
func (h *handler) serveMetrics(m *metrics) http.HandlerFunc {
	show := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return func(w http.ResponseWriter, r *http.Request) {
		who, _ := request.UserFrom(r.Context())
		decision, _, err := h.Gate.authz.Authorize(r.Context(), authorizer.AttributesRecord{User: who, Verb: "get", Path: metricsPath})
		switch {
		case err != nil:
			writeReply(w, http.StatusServiceUnavailable, ledger.Failure{Error: "the cluster cannot be asked what you may: try again later"})
		case decision != authorizer.DecisionAllow:
			writeReply(w, http.StatusForbidden, ledger.Failure{Error: "you may not get " + metricsPath})
		default:
			show.ServeHTTP(w, r)
		}
	}
}

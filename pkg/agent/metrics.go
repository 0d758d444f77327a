package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/audit"
	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/shares"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
)

// Metrics count what the agent does. No label has a value that users choose, except those of pods that currently hold devices. There are no more of
// them than the node has devices and shares.
type Metrics struct {
	registry      *prometheus.Registry
	startSeconds  *prometheus.HistogramVec
	refusals      *prometheus.CounterVec
	xids          *prometheus.CounterVec
	gpus          *prometheus.GaugeVec
	libraryErrors prometheus.Counter
	nodeWrites    *prometheus.CounterVec
	registrations *prometheus.CounterVec
	overruns      prometheus.Counter
	held          *prometheus.GaugeVec
	audits        prometheus.Counter
	differences   *prometheus.GaugeVec
	podDevices    *prometheus.GaugeVec
	podMemory     *prometheus.GaugeVec

	// The current values of the gauges of pods. Only the watcher uses them.
	lastHeld, lastDevices, lastMemory series
}

// startBuckets end at the maximum wait for a start.
var startBuckets = []float64{.002, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 25}

// NewMetrics returns metrics that all begin at 0.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		startSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "gpu_agent_container_start_seconds", Buckets: startBuckets,
			Help: "How long PreStartContainer took, by result: bound or refused."}, []string{"result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpu_agent_container_refusals_total",
			Help: "Containers that were not let start, by reason. kubelet tries again."}, []string{"reason"}),
		xids: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpu_agent_xids_total",
			Help: "Errors that the driver reported, by class."}, []string{"class"}),
		gpus: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpu_agent_cards",
			Help: "Cards of the node, by state: healthy or sick."}, []string{"state"}),
		libraryErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "gpu_agent_driver_errors_total",
			Help: "Calls of the driver that failed."}),
		nodeWrites: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpu_agent_node_writes_total",
			Help: "Changes that were written to the node, by result: ok or error."}, []string{"result"}),
		registrations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpu_agent_registrations_total",
			Help: "Times that kubelet was told of a resource."}, []string{"resource"}),
		overruns: prometheus.NewCounter(prometheus.CounterOpts{Name: "gpu_agent_share_overruns_total",
			Help: "Times that a container was found to use more memory of a card than its share."}),
		held: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpu_agent_held",
			Help: "Cards, slices and shares that containers hold, by resource."}, []string{"resource"}),
		audits: prometheus.NewCounter(prometheus.CounterOpts{Name: "gpu_agent_audits_total",
			Help: "Times that kubelet's word was compared with the agent's records, from the first question to the last answer."}),
		differences: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpu_agent_record_differences",
			Help: "What kubelet's PodResources and the agent's records do not agree on, at two looks in a row, by kind. 0 is right."}, []string{"kind"}),
		podDevices: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpu_agent_pod_device_info",
			Help: "1 for each device that a container holds. UUID is that of other exporters, such as DCGM's."},
			[]string{"namespace", "pod", "container", "resource", "UUID"}),
		podMemory: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gpu_agent_pod_device_memory_bytes",
			Help: "Memory of a device that the processes of a pod have, by the driver."}, []string{"namespace", "pod", "UUID"}),
	}
	m.registry.MustRegister(m.startSeconds, m.refusals, m.xids, m.gpus, m.libraryErrors, m.nodeWrites, m.registrations, m.overruns, m.held,
		m.audits, m.differences, m.podDevices, m.podMemory)
	m.setDifferences(nil)
	for _, reason := range binding.Reasons {
		m.refusals.WithLabelValues(string(reason))
	}
	for _, class := range fault.Classes {
		m.xids.WithLabelValues(string(class))
	}
	return m
}

// observeStart records a call of PreStartContainer.
func (m *Metrics) observeStart(took time.Duration, refusal *binding.Refusal) {
	if refusal == nil {
		m.startSeconds.WithLabelValues("bound").Observe(took.Seconds())
		return
	}
	m.startSeconds.WithLabelValues("refused").Observe(took.Seconds())
	m.refusals.WithLabelValues(string(refusal.Reason)).Inc()
}

func (m *Metrics) setHealth(view *View) {
	counts := map[bool]int{}
	for _, word := range view.Health {
		counts[word == gpu.Healthy]++
	}
	m.gpus.WithLabelValues("healthy").Set(float64(counts[true]))
	m.gpus.WithLabelValues("sick").Set(float64(counts[false]))
}

// setHeldDevices records what containers hold.
func (m *Metrics) setHeldDevices(records []binding.Record) {
	held, devices := series{}, series{}
	for i := range records {
		record := &records[i]
		held.addSample(float64(len(record.Devices)), record.Resource)
		for _, uuid := range record.UUIDs() {
			devices.addSample(1, record.Namespace, record.PodName, record.Container, record.Resource, uuid)
		}
	}
	m.lastHeld = held.updateGauge(m.held, m.lastHeld)
	m.lastDevices = devices.updateGauge(m.podDevices, m.lastDevices)
}

type key struct {
	pod types.UID
	gpu string
}

// setPodUse records how much of their devices the processes of pods use. A pod without processes has 0.
func (m *Metrics) setPodUse(records []binding.Record, uses []shares.Use) {
	memory, told := series{}, map[key]bool{}
	for i := range records {
		record := &records[i]
		for _, uuid := range record.UUIDs() {
			if told[key{record.Pod, uuid}] {
				continue // counted for another container of the pod
			}
			told[key{record.Pod, uuid}] = true
			var sum int64
			for j := range uses {
				if uses[j].Pod == record.Pod && uses[j].GPUUUID == uuid {
					sum += uses[j].UsedMiB
				}
			}
			memory.addSample(float64(sum<<20), record.Namespace, record.PodName, uuid)
		}
	}
	m.lastMemory = memory.updateGauge(m.podMemory, m.lastMemory)
}

// setDifferences records the differences between kubelet and the records.
func (m *Metrics) setDifferences(differences []audit.Difference) {
	for _, kind := range audit.Kinds {
		count := 0
		for i := range differences {
			if differences[i].Kind == kind {
				count++
			}
		}
		m.differences.WithLabelValues(string(kind)).Set(float64(count))
	}
}

const (
	readTimeout  = 5 * time.Second
	drainTimeout = 2 * time.Second
)

// listenAndServe answers /metrics and /healthz until ctx ends.
func (m *Metrics) listenAndServe(ctx context.Context, address string) error {
	if address == "" {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: readTimeout}
	defer context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		_ = server.Shutdown(drain) // what is left is closed with the process
	})()
	if err := server.ListenAndServe(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}

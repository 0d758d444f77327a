package notify

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"g8s.host/gpu-scheduler/pkg/controller/bounded"
)

// mostChannels is how many channels have their own metric. Administrators set them up, and might do so with a program.
const mostChannels = 200

// Health records whether the last call of each channel succeeded. It counts only channels that administrators have set up, because users choose the
// other names.
type Health struct {
	failing *prometheus.GaugeVec

	mu    sync.Mutex
	known map[string]bool
}

// NewHealth returns an empty Health.
func NewHealth() *Health {
	return &Health{
		failing: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gpu_controller_channel_failing", Help: "Whether the last call of a channel that is told how jobs end failed.",
		}, []string{"channel"}),
		known: map[string]bool{},
	}
}

// Collectors are the metrics.
func (h *Health) Collectors() []prometheus.Collector {
	return []prometheus.Collector{h.failing}
}

// RecordCall records the outcome of a call.
func (h *Health) RecordCall(channel string, outcome Outcome) {
	failing := 0.0
	if outcome.Why != "" {
		failing = 1
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failing.WithLabelValues(h.labelFor(channel)).Set(failing)
}

// PruneChannels removes the channels that no longer exist, which makes room for others.
func (h *Health) PruneChannels(exists func(channel string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for channel := range h.known {
		if !exists(channel) {
			delete(h.known, channel)
			h.failing.DeleteLabelValues(channel)
		}
	}
	if len(h.known) < mostChannels && !h.known[bounded.Others] { // each has its own metric from now on
		h.failing.DeleteLabelValues(bounded.Others)
	}
}

// labelFor returns the metric label of a channel. The caller holds the lock.
func (h *Health) labelFor(channel string) string {
	if !h.known[channel] && len(h.known) >= mostChannels {
		return bounded.Others
	}
	h.known[channel] = true
	return channel
}

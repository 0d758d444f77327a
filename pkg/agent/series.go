package agent

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// sample is the value of a gauge for some label values.
type sample struct {
	labels []string
	value  float64
}

// series are the samples of a gauge, by the values of their labels.
type series map[string]sample

func (s series) addSample(value float64, labels ...string) {
	key := strings.Join(labels, "\x00")
	s[key] = sample{labels, s[key].value + value}
}

// updateGauge sets a gauge to these samples, removes the previous ones that are gone, and returns the new ones. Samples that stay are present all the
// time. If the gauge were cleared and refilled, a scrape in between would miss them, and an alert that waits for an hour would start over.
func (s series) updateGauge(gauge *prometheus.GaugeVec, before series) series {
	for _, sample := range s {
		gauge.WithLabelValues(sample.labels...).Set(sample.value)
	}
	for key, sample := range before {
		if _, still := s[key]; !still {
			gauge.DeleteLabelValues(sample.labels...)
		}
	}
	return s
}

package agent

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// sample is what a gauge says with some values of its labels.
type sample struct {
	labels []string
	value  float64
}

// series are the samples of a gauge, by the values of their labels.
type series map[string]sample

func (s series) add(value float64, labels ...string) {
	key := strings.Join(labels, "\x00")
	s[key] = sample{labels, s[key].value + value}
}

// replace has a gauge say this and no more, where it said what was before, and returns it. What it goes on saying is there all the
// time: a gauge that is emptied and filled says nothing to whoever asks meanwhile, and an alert that waits for an hour begins anew.
func (s series) replace(gauge *prometheus.GaugeVec, before series) series {
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

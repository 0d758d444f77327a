package recovery

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Record is what a node's annotation remembers of its failures: [g8s.AnnotationHealth].
type Record struct {
	// Failures is how often the node failed, each within [Settings.Forget] of the one before.
	Failures int `json:"failures"`
	// Last is when it failed last: the time of the change of its condition Ready.
	Last time.Time `json:"last,omitzero"`
}

// maxFailures is beyond what any back-off tells apart.
const maxFailures = 1000

// readRecord reads a node's annotation; a node without one has not failed.
func readRecord(node *corev1.Node) (Record, error) {
	text := node.Annotations[g8s.AnnotationHealth]
	if text == "" {
		return Record{}, nil
	}
	var record Record
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return Record{}, fmt.Errorf("reading annotation %s: %w", g8s.AnnotationHealth, err)
	}
	if record.Failures < 0 || record.Failures > maxFailures {
		return Record{}, fmt.Errorf("reading annotation %s: %d failures, want 0 to %d", g8s.AnnotationHealth, record.Failures, maxFailures)
	}
	return record, nil
}

// failedAgain is the record after one more failure.
func (r Record) failedAgain(at time.Time, forget time.Duration) Record {
	if at.Sub(r.Last) > forget {
		return Record{Failures: 1, Last: at}
	}
	return Record{Failures: min(r.Failures+1, maxFailures), Last: at}
}

// backOff is how long a node must be well before it gets new pods: it doubles with each failure, within bounds.
func (r Record) backOff(first, most time.Duration) time.Duration {
	out := first
	for range r.Failures - 1 {
		if out *= 2; out >= most {
			return most
		}
	}
	return min(out, most)
}

// text is the annotation.
func (r Record) text() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// Package nodestate is what our controllers keep of a node that fails, or that its pool does not take: what is wrong, since
// when, and what is being done about it. Controllers write it on the node, and every surface reads it here.
//
// All of it is pure.
package nodestate

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Record is what a node's annotation remembers of its failures: [g8s.AnnotationHealth].
type Record struct {
	// Failures is how often the node failed, each within a while of the one before.
	Failures int `json:"failures"`
	// Last is when it failed last: the time of the change of its condition.
	Last time.Time `json:"last,omitzero"`
	// Condition is the condition that must not be true and was, "" where the node was not ready.
	Condition string `json:"condition,omitempty"`
	// Until is when the node gets new pods again if it stays well; zero while it is not.
	Until time.Time `json:"until,omitzero"`
	// Held says why the node is not taken for dead though it may be, nil where nothing speaks against it.
	Held *Held `json:"held,omitempty"`
}

// Held says why a node is not taken for dead.
type Held struct {
	Reason HeldReason `json:"reason"`
	// Pod is the pod, as namespace/name, that a person must decide about.
	Pod string `json:"pod,omitempty"`
}

// HeldReason is one of a closed set.
type HeldReason string

const (
	// HeldByBudget says that more nodes of the pool are silent at once than may be taken for dead.
	HeldByBudget HeldReason = "Budget"
	// HeldByPod says that a pod is not to be moved without a person.
	HeldByPod HeldReason = "NoMigration"
	// HeldByStorage says that a pod holds a volume for one node at a time, and that nothing proves that the node is off.
	HeldByStorage HeldReason = "Storage"
)

// SilentAfter is how long after its last sign of life gpu-controller takes a node for dead, unless its flag --silent-node-after says otherwise.
const SilentAfter = 4 * time.Minute

// MaxFailures is beyond what any back-off tells apart.
const MaxFailures = 1000

// ReadRecord reads a node's annotation; a node without one has not failed.
func ReadRecord(node *corev1.Node) (Record, error) {
	text := node.Annotations[g8s.AnnotationHealth]
	if text == "" {
		return Record{}, nil
	}
	var record Record
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		return Record{}, fmt.Errorf("reading annotation %s: %w", g8s.AnnotationHealth, err)
	}
	if record.Failures < 0 || record.Failures > MaxFailures {
		return Record{}, fmt.Errorf("reading annotation %s: %d failures, want 0 to %d", g8s.AnnotationHealth, record.Failures, MaxFailures)
	}
	return record, nil
}

// Equal reports whether two records say the same.
func (r Record) Equal(other Record) bool {
	sameHeld := r.Held == nil && other.Held == nil || r.Held != nil && other.Held != nil && *r.Held == *other.Held
	return r.Failures == other.Failures && r.Last.Equal(other.Last) && r.Condition == other.Condition && r.Until.Equal(other.Until) && sameHeld
}

// Text is the annotation.
func (r Record) Text() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

// Package nodestate defines the state that our controllers keep about a node that fails, or that its pool does not admit: the problem, its time, and
// the action. Controllers write it on the node, and all readers use this package.
//
// The package is pure.
package nodestate

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Record is the failure history in a node's annotation: [g8s.AnnotationHealth].
type Record struct {
	// Failures counts the failures, each within a period of the previous one.
	Failures int `json:"failures"`
	// Last is the last failure: the time of the change of its condition.
	Last time.Time `json:"last,omitzero"`
	// Condition is the bad condition that was true, "" if the node was not ready.
	Condition string `json:"condition,omitempty"`
	// Until is when the node gets new pods again if it stays healthy; zero while it is not.
	Until time.Time `json:"until,omitzero"`
	// Held is why the node is not declared dead although it may be, nil without a reason.
	Held *Held `json:"held,omitempty"`
}

// Held is why a node is not declared dead.
type Held struct {
	Reason HeldReason `json:"reason"`
	// Pod is the pod, as namespace/name, that requires a decision by an administrator.
	Pod string `json:"pod,omitempty"`
}

// HeldReason is one of a closed set.
type HeldReason string

const (
	// HeldByBudget: more nodes of the pool are silent at once than may be declared dead.
	HeldByBudget HeldReason = "Budget"
	// HeldByPod: a pod must not be moved without a decision by an administrator.
	HeldByPod HeldReason = "NoMigration"
	// HeldByStorage: a pod holds a single-node volume, and nothing proves that the node is off.
	HeldByStorage HeldReason = "Storage"
)

// SilentAfter is how long after its last sign of life gpu-controller presumes a node dead, unless its flag --silent-node-after says otherwise.
const SilentAfter = 4 * time.Minute

// MaxFailures exceeds what any backoff distinguishes.
const MaxFailures = 1000

// ReadRecord reads the record of a node. A node without the annotation has not failed.
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

// Equal reports whether two records are equal.
func (r Record) Equal(other Record) bool {
	sameHeld := r.Held == nil && other.Held == nil || r.Held != nil && other.Held != nil && *r.Held == *other.Held
	return r.Failures == other.Failures && r.Last.Equal(other.Last) && r.Condition == other.Condition && r.Until.Equal(other.Until) && sameHeld
}

// EncodeAnnotation returns the annotation.
func (r Record) EncodeAnnotation() (string, error) {
	text, err := json.Marshal(r)
	return string(text), err
}

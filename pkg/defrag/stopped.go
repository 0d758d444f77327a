package defrag

import (
	"fmt"
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// StoppedError says how far moves came, and why no further.
type StoppedError struct {
	// Made are the moves that were made, Left those that were not begun or whose pod is where it was. Evicted is the one
	// whose pod was evicted, and has none on another node in its place yet, if there is such a one.
	Made, Evicted, Left []Move
	// Closed are the nodes that could not be opened again.
	Closed []string
	Cause  error
}

func (e *StoppedError) Error() string { return e.Cause.Error() }
func (e *StoppedError) Unwrap() error { return e.Cause }

// HowFar says what was moved, what was not, and in what state the nodes are.
func (e *StoppedError) HowFar() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Moved: %s. ", podsOf(e.Made))
	if len(e.Evicted) > 0 {
		fmt.Fprintf(&text, "Evicted, and on no other node yet: %s. ", podsOf(e.Evicted))
	}
	fmt.Fprintf(&text, "Not moved: %s.\nWhat was moved stays moved, ", podsOf(e.Left))
	if len(e.Closed) == 0 {
		text.WriteString("and all nodes are open again.")
		return text.String()
	}
	fmt.Fprintf(&text, "and closed to new pods are still: %s. To open them: kubectl taint node %s %s-",
		strings.Join(e.Closed, ", "), strings.Join(e.Closed, " "), names.TaintMoving)
	return text.String()
}

func podsOf(moves []Move) string {
	if len(moves) == 0 {
		return "nothing"
	}
	pods := make([]string, len(moves))
	for i, move := range moves {
		pods[i] = move.Namespace + "/" + move.Pod
	}
	return strings.Join(pods, ", ")
}

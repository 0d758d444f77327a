package defrag

import (
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
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

// Says is the error in every language.
func (e *StoppedError) Says() phrase.Text { return phrase.OfError(e.Cause) }

// Unwrap is what stopped the moves.
func (e *StoppedError) Unwrap() error { return e.Cause }

// HowFar says what was moved, what was not, and in what state the nodes are.
func (e *StoppedError) HowFar() phrase.Text {
	text := phrase.Of("Moved: %s. ", podsOf(e.Made))
	if len(e.Evicted) > 0 {
		text = text.And("Evicted, and on no other node yet: %s. ", podsOf(e.Evicted))
	}
	text = text.And("Not moved: %s.\nWhat was moved stays moved, ", podsOf(e.Left))
	if len(e.Closed) == 0 {
		return text.And("and all nodes are open again.")
	}
	return text.And("and closed to new pods are still: %s. To open them: kubectl taint node %s %s-",
		strings.Join(e.Closed, ", "), strings.Join(e.Closed, " "), names.TaintMoving)
}

func podsOf(moves []Move) phrase.Text {
	if len(moves) == 0 {
		return phrase.Of("nothing")
	}
	pods := make([]string, len(moves))
	for i, move := range moves {
		pods[i] = move.Namespace + "/" + move.Pod
	}
	return phrase.Quote(strings.Join(pods, ", "))
}

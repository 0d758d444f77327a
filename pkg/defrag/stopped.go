package defrag

import (
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// StoppedError reports the progress of interrupted moves and the cause.
type StoppedError struct {
	// Made are the completed moves, and Left those not begun or whose pod is still in place. Evicted is the move whose pod was evicted without a
	// replacement on another node yet, if there is one.
	Made, Evicted, Left []Move
	// Closed are the nodes that could not be opened again.
	Closed []string
	Cause  error
}

func (e *StoppedError) Error() string { return e.Cause.Error() }

// Message is the error in every language.
func (e *StoppedError) Message() phrase.Text { return phrase.FromError(e.Cause) }

// Unwrap returns the cause.
func (e *StoppedError) Unwrap() error { return e.Cause }

// ProgressText describes what was moved, what was not, and the state of the nodes.
func (e *StoppedError) ProgressText() phrase.Text {
	text := phrase.Textf("Moved: %s. ", podsOf(e.Made))
	if len(e.Evicted) > 0 {
		text = text.Addf("Evicted, and on no other node yet: %s. ", podsOf(e.Evicted))
	}
	text = text.Addf("Not moved: %s.\nWhat was moved stays moved, ", podsOf(e.Left))
	if len(e.Closed) == 0 {
		return text.Addf("and all nodes are open again.")
	}
	return text.Addf("and closed to new pods are still: %s. To open them: kubectl taint node %s %s-",
		strings.Join(e.Closed, ", "), strings.Join(e.Closed, " "), names.TaintMoving)
}

func podsOf(moves []Move) phrase.Text {
	if len(moves) == 0 {
		return phrase.Textf("nothing")
	}
	pods := make([]string, len(moves))
	for i, move := range moves {
		pods[i] = move.Namespace + "/" + move.Pod
	}
	return phrase.Quote(strings.Join(pods, ", "))
}

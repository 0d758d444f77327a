package cli

import (
	"strings"
	"time"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// nodeStatus returns the state of a node, followed by what controllers report about it, such as Ready, Cordoned, Suspect or NotReady,OutOfService.
func nodeStatus(n inventory.Node) string {
	words := []string{"Ready"}
	switch {
	case !n.Ready:
		words[0] = "NotReady"
	case n.Cordoned:
		words[0] = "Cordoned"
	}
	for _, state := range n.States {
		if state.Code == nodestate.Suspect && !n.Ready {
			continue // NotReady is the reason for Suspect
		}
		if words[0] == "Ready" && state.ClosesNode() {
			words = words[1:]
		}
		words = append(words, string(state.Code))
	}
	return strings.Join(words, ",")
}

func nodeColor(n inventory.Node) string {
	switch {
	case !n.Ready:
		return colorRed
	case !n.IsSchedulable():
		return colorYellow
	}
	return colorGreen
}

// nodeStateTexts describes what controllers report about a node, in a few words each.
func nodeStateTexts(n inventory.Node) phrase.Text {
	var out []phrase.Text
	for _, state := range n.States {
		out = append(out, state.Says())
	}
	return phrase.Join(out, phrase.Textf("; "))
}

// stateSentence describes what a controller reports about a node, since when and until when.
func stateSentence(state nodestate.State, ready bool, now time.Time) phrase.Text {
	out := state.Says()
	if state.Since != nil {
		out = out.Addf(", since %s ago", formatAge(now, *state.Since))
	}
	switch {
	case state.Until != nil && state.Until.After(now):
		out = out.Addf("; it takes pods again in %s if it stays well", formatAge(*state.Until, now))
	case state.Code == nodestate.Suspect && !ready:
		out = out.Addf("; it takes pods again when it has been ready for a while")
	case state.Code == nodestate.Suspect && state.Until == nil:
		out = out.Addf("; it takes pods again when that is over, and a while after")
	}
	return out
}

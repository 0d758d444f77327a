package workload

import (
	"slices"
	"strings"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Notify is the notification configuration of a job.
type Notify struct {
	// Channel is the name under which administrators store the address.
	Channel string
	// On lists the events to report, from [names.NotifyWords]; never empty after parsing.
	On []string
}

// OnText returns On as one word.
func (n *Notify) OnText() string { return strings.Join(n.On, ",") }

// notifyDefault are the default events: the job ended, in whichever way.
var notifyDefault = []string{names.NotifySucceeded, names.NotifyFailed, names.NotifyCancelled}

func notifyFields(n *Notify) fields {
	return fields{
		{name: "channel", required: true, value: scalarValue(&n.Channel, "name", dnsLabel(63)), example: "ml-alerts",
			doc: "The channel to tell. Administrators set channels up, and say which namespaces may use them; an address cannot be written here."},
		{name: "when", aliases: []string{"on"}, value: oneOrList(&n.On, len(names.NotifyWords), "word", notifyWord), def: "succeeded, failed and cancelled", example: "[failed, evicted]",
			doc: "Of what to tell; on is another name of it, which many programs read as true: succeeded, failed, cancelled, evicted; one, or a list. evicted is each time that pods of the job lose their places, after which it starts again by itself."},
	}
}

func notifyWord(s string) (string, error) {
	if !slices.Contains(names.NotifyWords, s) {
		return "", phrase.Errorf("is not one of %s", strings.Join(names.NotifyWords, ", "))
	}
	return s, nil
}

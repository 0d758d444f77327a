package cli

import (
	"strings"
	"time"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// describeNotify says which channel is notified about the job, and the result of the last notification.
func describeNotify(d *description, notify *inventory.Notify, now time.Time) {
	if notify == nil {
		return
	}
	text := phrase.Textf("channel %s, when the job %s", notify.Channel, joinEvents(notify.On))
	if notify.Notified != "" {
		text = text.Addf("; told that it %s, %s", eventText(notify.Notified), momentText(notify.NotifiedAt, now))
	}
	if notify.FailureReason != "" {
		text = text.Addf("; not told: %s", notify.FailureReason)
	}
	d.writeWrappedField("Notify", text.Localize(d.language))
}

// eventText returns the words for an event that a channel is notified of.
func eventText(word string) phrase.Text {
	switch word {
	case names.NotifySucceeded:
		return phrase.Textf("succeeded")
	case names.NotifyFailed:
		return phrase.Textf("failed")
	case names.NotifyCancelled:
		return phrase.Textf("was cancelled")
	case names.NotifyEvicted:
		return phrase.Textf("was evicted")
	}
	return phrase.Quote(strings.TrimSpace(word))
}

func joinEvents(words []string) phrase.Text {
	all := make([]phrase.Text, len(words))
	for i, word := range words {
		all[i] = eventText(word)
	}
	return phrase.Join(all, phrase.Textf(" or "))
}

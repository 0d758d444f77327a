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
	text := phrase.Of("channel %s, when the job %s", notify.Channel, wordsOf(notify.On))
	if notify.Told != "" {
		text = text.And("; told that it %s, %s", happenedOf(notify.Told), moment(notify.ToldAt, now))
	}
	if notify.NotTold != "" {
		text = text.And("; not told: %s", notify.NotTold)
	}
	d.sentence("Notify", text.In(d.language))
}

// happenedOf returns the words for an event that a channel is notified of.
func happenedOf(word string) phrase.Text {
	switch word {
	case names.NotifySucceeded:
		return phrase.Of("succeeded")
	case names.NotifyFailed:
		return phrase.Of("failed")
	case names.NotifyCancelled:
		return phrase.Of("was cancelled")
	case names.NotifyEvicted:
		return phrase.Of("was evicted")
	}
	return phrase.Quote(strings.TrimSpace(word))
}

func wordsOf(words []string) phrase.Text {
	all := make([]phrase.Text, len(words))
	for i, word := range words {
		all[i] = happenedOf(word)
	}
	return phrase.Join(all, phrase.Of(" or "))
}

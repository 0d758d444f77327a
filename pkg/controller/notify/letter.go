package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
)

// Notification is a notification about a job.
type Notification struct {
	Channel string
	Job     types.NamespacedName
	UID     types.UID
	// Word is the kind of notification, and Until the newest eviction that it includes.
	Word  string
	Until time.Time
	Text  string
}

// dedupKey is equal for notifications of the same event.
func (l *Notification) dedupKey() string {
	return string(l.UID) + "/" + l.Word + "/" + l.Until.UTC().Format(time.RFC3339)
}

// longestDetail bounds the text, which includes Kubernetes' own messages.
const longestDetail = 300

// endNotification returns the notification of a Job's end.
func endNotification(job *batchv1.Job, word string, now time.Time) *Notification {
	text := fmt.Sprintf("Job %s/%s %s", job.Namespace, job.Name, endVerbs[word])
	if began := job.Status.StartTime; began != nil {
		text += " after " + duration.HumanDuration(max(endOf(job, now).Sub(began.Time), 0))
	}
	if word == g8s.NotifyFailed {
		text += whyFailed(job)
	}
	return newNotification(job, word, text)
}

var endVerbs = map[string]string{g8s.NotifySucceeded: "succeeded", g8s.NotifyFailed: "failed", g8s.NotifyCancelled: "was cancelled"}

// whyFailed returns Kubernetes' message about a failed Job.
func whyFailed(job *batchv1.Job) string {
	failed := condition.TrueOfJob(job, batchv1.JobFailed)
	if failed == nil {
		return ""
	}
	return fmt.Sprintf(" (%s: %s). See: gpuctl why %s -n %s", failed.Reason, failed.Message, job.Name, job.Namespace)
}

// evictionNotification returns the notification of evicted pods.
func evictionNotification(job *batchv1.Job, of *evicted) *Notification {
	pods := "a pod"
	if len(of.pods) > 1 {
		pods = fmt.Sprintf("%d pods", len(of.pods))
	}
	letter := newNotification(job, g8s.NotifyEvicted, fmt.Sprintf("Job %s/%s lost the places of %s (%s), and starts again by itself", job.Namespace, job.Name, pods, of.why))
	letter.Until = of.last
	return letter
}

func newNotification(job *batchv1.Job, word, text string) *Notification {
	channel, _ := notifySettings(job)
	return &Notification{
		Channel: channel, Job: types.NamespacedName{Namespace: job.Namespace, Name: job.Name}, UID: job.UID, Word: word, Text: text,
	}
}

// encodeBody encodes a notification for receivers: JSON with one key. Quoted text has no effect there: neither as a link, nor as a mention of everyone in a
// room.
func (l *Notification) encodeBody() ([]byte, error) {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, l.Text)
	if runes := []rune(text); len(runes) > longestDetail {
		text = string(runes[:longestDetail]) + " …"
	}
	return json.Marshal(map[string]string{"text": plain.Replace(text)})
}

// plain escapes Slack markup and prevents mentions by @, as Mattermost and Discord read them.
var plain = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "@", "@\u200b")

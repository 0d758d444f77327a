package inventory

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Notify is the channel that is notified of a job's outcome, and the state of the notification.
type Notify struct {
	Channel string `json:"channel" doc:"The channel that is told"`
	// On are the events to notify of, such as failed.
	On []string `json:"on" doc:"Of what it is told: succeeded, failed, cancelled, evicted"`
	// Notified is the last notified event, "" for none yet, and NotifiedAt its time.
	Notified   string    `json:"told,omitempty" doc:"Of what it was told last"`
	NotifiedAt time.Time `json:"toldAt,omitzero" doc:"When it was told last"`
	// FailureReason is why the newest notification failed, or will not be sent.
	FailureReason string `json:"notTold,omitempty" doc:"Why it was not told the newest, or will not be"`
}

// readNotify reads the notification state from the object of a job; nil for a job without notifications.
func readNotify(object *metav1.ObjectMeta) *Notify {
	if object == nil || object.Annotations[names.AnnotationNotify] == "" {
		return nil
	}
	out := &Notify{
		Channel:       object.Annotations[names.AnnotationNotify],
		On:            strings.Split(object.Annotations[names.AnnotationNotifyOn], ","),
		FailureReason: object.Annotations[names.AnnotationNotifyFailed],
	}
	out.Notified, out.NotifiedAt = names.LastNotified(object)
	return out
}

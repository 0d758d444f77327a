package v1alpha1

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NotifiedValue is the value of [AnnotationLastNotified] for an object after a notification of an event.
func NotifiedValue(object metav1.Object, word string, at time.Time) string {
	return string(object.GetUID()) + "/" + word + "/" + at.UTC().Format(time.RFC3339)
}

// LastNotified returns the last notified event of an object and its time; "" if there is none yet. A recreated object has the annotations of the previous
// one, which do not count.
func LastNotified(object metav1.Object) (word string, at time.Time) {
	parts := strings.SplitN(object.GetAnnotations()[AnnotationLastNotified], "/", 3)
	if len(parts) < 3 || parts[0] != string(object.GetUID()) {
		return "", time.Time{}
	}
	at, err := time.Parse(time.RFC3339, parts[2])
	if err != nil {
		return "", time.Time{}
	}
	return parts[1], at
}

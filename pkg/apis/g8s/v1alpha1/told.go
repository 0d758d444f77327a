package v1alpha1

import (
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ToldAs is what [AnnotationTold] says of an object whose channel was told of a word.
func ToldAs(object metav1.Object, word string, at time.Time) string {
	return string(object.GetUID()) + "/" + word + "/" + at.UTC().Format(time.RFC3339)
}

// ToldOf is of what the channel of an object was told last, and when; "" for nothing yet. An object that was made again has the
// annotations of the one before, and of it nothing was told.
func ToldOf(object metav1.Object) (word string, at time.Time) {
	parts := strings.SplitN(object.GetAnnotations()[AnnotationTold], "/", 3)
	if len(parts) < 3 || parts[0] != string(object.GetUID()) {
		return "", time.Time{}
	}
	at, err := time.Parse(time.RFC3339, parts[2])
	if err != nil {
		return "", time.Time{}
	}
	return parts[1], at
}

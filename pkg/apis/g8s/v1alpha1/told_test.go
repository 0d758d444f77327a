package v1alpha1

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestToldOf(t *testing.T) {
	at := time.Date(2026, time.May, 4, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		noted string
		word  string
		at    time.Time
	}{
		"what was written":           {NotifiedValue(&metav1.ObjectMeta{UID: "a"}, NotifyFailed, at.In(time.FixedZone("", 3600))), NotifyFailed, at},
		"nothing":                    {},
		"of the object before":       {noted: NotifiedValue(&metav1.ObjectMeta{UID: "b"}, NotifyFailed, at)},
		"without a time":             {noted: "a/failed"},
		"a time that is none":        {noted: "a/failed/yesterday"},
		"what somebody else thought": {noted: "//"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			word, got := LastNotified(&metav1.ObjectMeta{UID: "a", Annotations: map[string]string{AnnotationLastNotified: tc.noted}})
			if word != tc.word || !got.Equal(tc.at) {
				t.Errorf("got %q at %s, want %q at %s", word, got, tc.word, tc.at)
			}
		})
	}
}

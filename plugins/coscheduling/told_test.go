package coscheduling

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestATellingThatFailsIsTriedOnceMore: nobody leaves who was not told, and nothing is kept of it.
func TestATellingThatFailsIsTriedOnceMore(t *testing.T) {
	l, now := newPolite(t)
	failures := 1
	l.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := string(action.(clienttesting.PatchAction).GetPatch())
		if !strings.Contains(patch, names.AnnotationPreemptionNotice) || failures == 0 {
			return false, nil, nil
		}
		failures--
		return true, nil, errors.New("lost")
	})
	if _, evicted := l.tries("m0"); len(evicted) > 0 || len(l.noticed()) > 0 || !l.notices.isEmpty() {
		t.Fatalf("%v are evicted, and %v are to leave", evicted, l.noticed())
	}
	*now = now.Add(2 * exhausted)
	if _, evicted := l.tries("m0"); len(evicted) > 0 || !slices.Equal(l.noticed(), []string{"asks", "other"}) {
		t.Errorf("%v are evicted, and %v told then", evicted, l.noticed())
	}
}

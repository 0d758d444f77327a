package nodestate

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func annotated(text string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{g8s.AnnotationHealth: text}}}
}

func TestARecordIsReadAsItIsWritten(t *testing.T) {
	for _, want := range []Record{{}, {Failures: 3, Last: now}, {Failures: 1, Last: now, Condition: "XIDFatal", Until: now, Held: &Held{Reason: HeldByPod, Pod: "a/b"}}} {
		text, err := want.EncodeAnnotation()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadRecord(annotated(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// TestARecordThatIsNotOursIsRefused: read as none, it would forget the failures of a node.
func TestARecordThatIsNotOursIsRefused(t *testing.T) {
	for _, text := range []string{"{", `{"failures":"many"}`, `{"failures":-1}`, `{"failures":1001}`, `{"failures":1,"last":"yesterday"}`} {
		if got, err := ReadRecord(annotated(text)); err == nil || !strings.Contains(err.Error(), g8s.AnnotationHealth) {
			t.Errorf("%s: got %+v and error %v, want one that names the annotation", text, got, err)
		}
	}
}

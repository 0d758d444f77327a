package recorder

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// idle waits until nobody reads a pod any more, and says how often the kubelet was asked.
func idle(t *testing.T, o *Outputs, k *kubelet, uid string) int {
	t.Helper()
	settled(t, o, uid)
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// TestMoreThanIsReadIsReadOnce: that it goes on is said, and no change of the pod has it read again.
func TestMoreThanIsReadIsReadOnce(t *testing.T) {
	line := "2026-11-01T12:00:00Z " + strings.Repeat("x", 1002) + "\n"
	k := &kubelet{text: strings.Repeat(line, mostRead/len(line)+1)}
	o := keeper(t, k)
	for range 4 {
		o.PodEnding(printing("1", succeeded(5)))
		if got := idle(t, o, k, "1"); got != 1 {
			t.Fatalf("the kubelet was asked %d times", got)
		}
	}
	if out := settled(t, o, "1"); !out.Incomplete || !out.Truncated {
		t.Errorf("kept as if it were all: truncated %t, incomplete %t", out.Truncated, out.Incomplete)
	}
}

// TestChangesOfAPodReadItNoMoreOften: one that takes long to end is read twice at the most, and once it has ended again.
func TestChangesOfAPodReadItNoMoreOften(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n"}
	o := keeper(t, k)
	o.listening[""] = maxListeners // nobody is listened to
	for range 5 {
		o.PodEnding(printing("1", deleted))
		idle(t, o, k, "1")
	}
	if got := idle(t, o, k, "1"); got != mostReadings {
		t.Errorf("read %d times while it ended, want %d", got, mostReadings)
	}
	o.PodEnding(printing("1", deleted, succeeded(5)))
	if got := idle(t, o, k, "1"); got != mostReadings+1 {
		t.Errorf("read %d times in all, want once more at its end", got)
	}
}

// TestAPodThatFindsAPlaceIsListenedTo, however often it was read before.
func TestAPodThatFindsAPlaceIsListenedTo(t *testing.T) {
	was := readHistory{readings: mostReadings}
	if was.shouldRead(false, false) || !was.shouldRead(false, true) || was.withReading(false, true).shouldRead(false, true) {
		t.Error("it is listened to once")
	}
	if (readHistory{tooMuch: true}).shouldRead(false, true) || !(readHistory{tooMuch: true}).shouldRead(true, false) {
		t.Error("what prints too much is read once more, when it has ended")
	}
}

// stuck is a kubelet that never answers for the pods of one namespace.
type stuck struct {
	of    string
	asked chan struct{}
}

func (s *stuck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, "/namespaces/"+s.of+"/") {
		s.asked <- struct{}{}
		<-r.Context().Done()
		return
	}
	_, _ = io.WriteString(w, "2026-11-01T12:00:00Z hello\n")
}

// TestOneNamespaceTakesNotAllReaders: the pods of another are read while those of one take all the time there is.
func TestOneNamespaceTakesNotAllReaders(t *testing.T) {
	s := &stuck{of: pod("1").Namespace, asked: make(chan struct{}, 3*maxReaders)}
	o := keeper(t, s)
	for i := range 2 * maxReaders {
		o.PodEnding(printing(fmt.Sprint(i), succeeded(5)))
	}
	for range readersPerNamespace {
		select {
		case <-s.asked:
		case <-time.After(20 * time.Second):
			t.Fatal("those that may be read are not")
		}
	}
	o.PodEnding(printing("x", succeeded(5), func(p *corev1.Pod) { p.Namespace, p.UID = "other", types.UID("other") }))
	kept(t, o, "other", "hello\n")
}

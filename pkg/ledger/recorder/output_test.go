package recorder

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

// kubelet serves the output of pods. It may fail, or break off after a few words, and goes on printing until a pod that is
// followed ends. It also shows the pods that there still are.
type kubelet struct {
	mu      sync.Mutex
	failing int
	// breaking is how often it breaks off, after so many bytes.
	breaking, after int
	there           []corev1.Pod
	asked           int
	ended           chan struct{}
	text            string
}

func (k *kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/pods") {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: k.there})
		return
	}
	k.mu.Lock()
	k.asked++
	fails, breaks := k.failing > 0, k.breaking > 0
	k.failing--
	k.breaking--
	k.mu.Unlock()
	if fails {
		http.Error(w, `{"kind":"Status","code":500,"status":"Failure"}`, http.StatusInternalServerError)
		return
	}
	if breaks {
		_, _ = io.WriteString(w, k.text[:k.after])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, k.text)
	if r.URL.Query().Get("follow") == "true" {
		_ = http.NewResponseController(w).Flush()
		select {
		case <-k.ended:
			_, _ = io.WriteString(w, lastText)
		case <-r.Context().Done():
		}
	}
}

const lastText = "2026-11-01T12:00:09Z last words\n"

func keeper(t *testing.T, k http.Handler) *Outputs {
	t.Helper()
	server := httptest.NewServer(k)
	t.Cleanup(server.Close)
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(filepath.Join(t.TempDir(), "ledger.db"), noon)
	if err != nil {
		t.Fatal(err)
	}
	o := NewOutputs(client, s, slog.New(slog.DiscardHandler), 1<<30)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- o.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = s.Close()
	})
	return o
}

func printing(uid string, edit ...func(*corev1.Pod)) *corev1.Pod {
	p := pod(uid, edit...)
	if len(p.Status.ContainerStatuses) == 0 {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	}
	return p
}

func deleted(p *corev1.Pod) {
	now, grace := metav1.Now(), int64(1)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &now, &grace
}

// kept waits for the output of a job that ends in a text.
func kept(t *testing.T, o *Outputs, namespace, suffix string) ledger.Output {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		out, _, err := o.Store.Outputs(store.OutputQuery{Namespace: store.Namespace{Name: namespace}, Job: "train", Most: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > 0 && strings.HasSuffix(out[0].Text, suffix) {
			return out[0]
		}
	}
	t.Fatalf("no output that ends in %q is kept", suffix)
	return ledger.Output{}
}

func TestTheOutputOfAPodThatEndedIsKept(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n", failing: 1}
	o := keeper(t, k)
	o.PodEnding(printing("1", succeeded(5)))
	if out := kept(t, o, pod("1").Namespace, "hello\n"); out.Truncated || out.PodUID != "1" {
		t.Errorf("kept %+v", out)
	}
	o.PodEnding(printing("1", succeeded(5)))
	time.Sleep(100 * time.Millisecond)
	if k.mu.Lock(); k.asked != 2 {
		t.Errorf("asked %d times, want once after a failure", k.asked)
	}
	k.mu.Unlock()
}

func TestAPodThatIsDeletedIsHeardUntilItsEnd(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n", ended: make(chan struct{})}
	o := keeper(t, k)
	o.PodEnding(printing("1", deleted))
	o.PodEnding(printing("1", deleted)) // told twice
	close(k.ended)
	kept(t, o, pod("1").Namespace, "last words\n")
}

// TestAPodThatIsGoneIsHeardNoLonger, and what it printed is kept.
func TestAPodThatIsGoneIsHeardNoLonger(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n", ended: make(chan struct{})}
	o := keeper(t, k)
	o.PodEnding(printing("1", deleted))
	time.Sleep(200 * time.Millisecond)
	o.PodGone(printing("1"))
	o.PodGone(printing("1"))
	if out := kept(t, o, pod("1").Namespace, "hello\n"); !out.Incomplete {
		t.Error("nobody heard it end, and it is called complete")
	}
}

// TestAPodThatHadEndedWhenItWent has printed all, though its kubelet did not end the output.
func TestAPodThatHadEndedWhenItWent(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n", ended: make(chan struct{})}
	o := keeper(t, k)
	o.PodEnding(printing("1", deleted))
	time.Sleep(200 * time.Millisecond)
	o.PodGone(printing("1", succeeded(5)))
	if out := settled(t, o, "1"); out.Incomplete || !strings.HasSuffix(out.Text, "hello\n") {
		t.Errorf("kept %+v", out)
	}
}

// TestOutputThatBreaksOff is read again, and what was read is called incomplete until it was read to its end.
func TestOutputThatBreaksOff(t *testing.T) {
	text := "2026-11-01T12:00:00Z hello\n2026-11-01T12:00:01Z there\n"
	for name, tc := range map[string]struct {
		kubelet *kubelet
		pod     *corev1.Pod
		want    string
		broken  bool
	}{
		"once":                    {kubelet: &kubelet{breaking: 1, after: 30}, pod: printing("1", succeeded(5)), want: text},
		"each time":               {kubelet: &kubelet{breaking: 99, after: 30}, pod: printing("1", succeeded(5)), want: text[:30], broken: true},
		"while it is listened to": {kubelet: &kubelet{breaking: 1, after: 30, ended: closed()}, pod: printing("1", deleted), want: text + lastText},
		"as if it had ended, and it runs": {kubelet: &kubelet{ended: closed(), there: []corev1.Pod{*printing("1", deleted, running)}},
			pod: printing("1", deleted), want: text + lastText, broken: true},
		"at its end, and the pod is there": {kubelet: &kubelet{ended: closed(), there: []corev1.Pod{*printing("1", deleted, succeeded(5))}},
			pod: printing("1", deleted), want: text + lastText},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := tc.kubelet
			k.text = text
			o := keeper(t, k)
			o.PodEnding(tc.pod)
			out := settled(t, o, string(tc.pod.UID))
			if out.Text != tc.want || out.Incomplete != tc.broken {
				t.Errorf("kept %q, incomplete %t, want %q, %t", out.Text, out.Incomplete, tc.want, tc.broken)
			}
		})
	}
}

// TestWhatIsKeptOfAPodThatGoesOnIsIncomplete: of a pod that is not listened to, what it printed so far is not all.
func TestWhatIsKeptOfAPodThatGoesOnIsIncomplete(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n"}
	o := keeper(t, k)
	o.listening[""] = maxListeners
	o.PodEnding(printing("1", deleted))
	if out := settled(t, o, "1"); !out.Incomplete {
		t.Errorf("kept %+v as all of it", out)
	}
	o.PodEnding(printing("1", deleted, succeeded(5)))
	if out := settled(t, o, "1"); out.Incomplete {
		t.Errorf("kept %+v of what has ended", out)
	}
}

func closed() chan struct{} {
	out := make(chan struct{})
	close(out)
	return out
}

func running(p *corev1.Pod) {
	p.Spec.Containers = []corev1.Container{{Name: p.Spec.Containers[0].Name}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: p.Spec.Containers[0].Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

// settled is what is kept of a pod once nobody reads it any more.
func settled(t *testing.T, o *Outputs, uid string) ledger.Output {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		o.mu.Lock()
		busy := o.busy[uid] != nil
		o.mu.Unlock()
		out, _, err := o.Store.Outputs(store.OutputQuery{Namespace: store.Namespace{Name: pod(uid).Namespace}, Job: "train", Most: 1 << 30})
		if err != nil {
			t.Fatal(err)
		}
		if !busy && len(out) == 1 {
			return out[0]
		}
	}
	t.Fatal("nothing is kept")
	return ledger.Output{}
}

// TestPodsThatTakeLongToEndKeepNobodyWaiting: of those that are not listened to, what there is so far is kept.
func TestPodsThatTakeLongToEndKeepNobodyWaiting(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n", ended: make(chan struct{})}
	defer close(k.ended)
	o := keeper(t, k)
	for i := range 3 * listenersPerNamespace {
		o.PodEnding(printing(fmt.Sprint(i), deleted))
	}
	other := func(p *corev1.Pod) { p.Namespace, p.UID = "other", types.UID("other") }
	o.PodEnding(printing("x", succeeded(5), other))
	kept(t, o, "other", "hello\n")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		out, _, err := o.Store.Outputs(store.OutputQuery{Namespace: store.Namespace{Name: pod("1").Namespace}, Job: "train", Most: 1 << 30})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d of %d are kept, error %v", len(out), 2*listenersPerNamespace, err)
		}
		if len(out) == 2*listenersPerNamespace {
			break
		}
	}
}

func TestWhoseOutputIsNotKept(t *testing.T) {
	k := &kubelet{text: "2026-11-01T12:00:00Z hello\n"}
	o := keeper(t, k)
	o.PodEnding(pod("1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })) // it never ran
	o.PodEnding(printing("2", succeeded(1), func(p *corev1.Pod) { delete(p.Labels, names.LabelJob) }))
	time.Sleep(200 * time.Millisecond)
	if k.mu.Lock(); k.asked != 0 {
		t.Errorf("asked %d times for output that nobody can ask for", k.asked)
	}
	k.mu.Unlock()
}

// TestOneNamespaceTakesNotAllOfTheQueue: pods as large as objects may be, thousands at once. What waits of them is small, and
// pods of others wait beside them.
func TestOneNamespaceTakesNotAllOfTheQueue(t *testing.T) {
	o := NewOutputs(nil, nil, slog.New(slog.DiscardHandler), 1<<30) // nobody reads
	for i := range maxWaiting + 1 {
		o.PodEnding(printing(fmt.Sprint(i), succeeded(1), func(p *corev1.Pod) { p.Annotations = map[string]string{"large": "x"} }))
	}
	if len(o.queue) != waitingPerNamespace {
		t.Errorf("%d pods of one namespace wait, want %d", len(o.queue), waitingPerNamespace)
	}
	o.PodEnding(printing("x", succeeded(1), func(p *corev1.Pod) { p.Namespace, p.UID = "other", types.UID("other") }))
	if len(o.queue) != waitingPerNamespace+1 {
		t.Error("a pod of another namespace finds no place")
	}
	first := <-o.queue
	if first.pod.Annotations != nil || len(first.pod.Status.ContainerStatuses) > 0 || first.pod.Labels[names.LabelJob] == "" {
		t.Errorf("what waits is %+v", first.pod)
	}
	o.finishReading(first)
	o.PodEnding(printing("again", succeeded(1)))
	if len(o.queue) != waitingPerNamespace+1 {
		t.Error("a place that was given back is not given again")
	}
}

package ledger

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/fixture"
)

// line is one test's part of the cluster: a namespace of which the ledger knows how long jobs have run, and the one node of a pool.
type line struct {
	*testing.T
	namespace, data string
	scheduler       *sandbox.Process
}

// lasted is how long all jobs of the namespace have run that asked for so many GPUs.
var lasted = map[int64]time.Duration{1: 24 * time.Hour, 2: time.Minute, 4: time.Hour}

// newLine has a namespace, and a ledger's file that knows of it.
func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{T: t, namespace: newNamespace(t, "line-"), data: t.TempDir()}
	t.Cleanup(l.cleanUp)
	file, err := store.Open(filepath.Join(l.data, "ledger.db"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Update(l.past), file.Close()); err != nil {
		t.Fatal(err)
	}
	return l
}

// past writes down 25 jobs of each size, which ended a minute ago.
func (l *line) past(tx *store.Tx) error {
	to := time.Now().Add(-time.Minute)
	for gpus, ran := range lasted {
		for i := range 25 {
			id := fmt.Sprintf("%s-%d-%d", l.namespace, gpus, i)
			held := ledger.Holding{UID: id, Namespace: l.namespace, Pod: id, Job: id, JobUID: id, Node: "gone", Pool: linePool,
				Milli: gpus * 1000, From: to.Add(-ran), To: to, Outcome: string(corev1.PodSucceeded)}
			if err := tx.Put(&held); err != nil {
				return err
			}
		}
	}
	return nil
}

// cleanUp frees the node for the next test.
func (l *line) cleanUp() {
	ctx := context.Background()
	if l.scheduler != nil {
		if err := l.scheduler.Stop(); err != nil {
			l.Error(err)
		}
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := client.CoreV1().Pods(l.namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		l.Error(err)
	}
}

// keep runs the ledger, on a port if it is not 0.
func (l *line) keep(port int) *sandbox.Ledger {
	l.Helper()
	runs, err := cluster.StartLedger(l.Context(), sandbox.LedgerOptions{Port: port, Args: []string{"--data-dir=" + l.data}})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := runs.Kill(); err != nil {
			l.Error(err)
		}
	})
	return runs
}

// schedule runs the scheduler with the shipped configuration, and a ledger at an address, with a certificate of some authority.
func (l *line) schedule(address, authority string) {
	l.Helper()
	shipped, err := manifests.FS.ReadFile("scheduler/scheduler-config.yaml")
	if err != nil {
		l.Fatal(err)
	}
	asks := fmt.Sprintf("  pluginConfig: &pluginConfig\n  - name: GPUFilter\n    args: {promiseLedger: %q, promiseLedgerCA: %q}\n", address, authority)
	config := filepath.Join(l.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(strings.Replace(string(shipped), "  pluginConfig: &pluginConfig\n", asks, 1)), 0o600); err != nil {
		l.Fatal(err)
	}
	// A name of its own has a log of its own.
	l.scheduler, err = cluster.StartScheduler(l.Context(), sandbox.SchedulerOptions{Name: l.namespace, ConfigPath: config})
	if err != nil {
		l.Fatal(err)
	}
}

// comes creates a pod, of seconds if it has a deadline, else 0.
func (l *line) comes(name string, gpus, seconds int64) {
	l.Helper()
	pod := fixture.Pod(name).GPUs(gpus).Pool(linePool).Obj()
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	if seconds > 0 {
		pod.Spec.ActiveDeadlineSeconds = &seconds
	}
	l.eventually("the API server to take "+name, func() bool { // once the namespace has its service account
		_, err := client.CoreV1().Pods(l.namespace).Create(l.Context(), pod, metav1.CreateOptions{})
		return err == nil
	})
}

func (l *line) eventually(what string, is func() bool) {
	l.Helper()
	eventually(l.T, what, is)
}

func (l *line) pod(name string) *corev1.Pod {
	l.Helper()
	pod, err := client.CoreV1().Pods(l.namespace).Get(l.Context(), name, metav1.GetOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return pod
}

func (l *line) runs(name string) {
	l.Helper()
	l.eventually(name+" to run", func() bool { return l.pod(name).Status.Phase == corev1.PodRunning })
}

// says is what the scheduler said last of a pod that waits.
func (l *line) says(name string) string {
	l.Helper()
	for _, condition := range l.pod(name).Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

// waits waits until the scheduler says something of a pod, and nothing of other things.
func (l *line) waits(name, text string, not ...string) {
	l.Helper()
	said := ""
	for deadline := time.Now().Add(patience); !strings.Contains(said, text); time.Sleep(50 * time.Millisecond) {
		if said = l.says(name); time.Now().After(deadline) {
			l.Fatalf("waited %s for the scheduler to say of %s that %q, it says %q", patience, name, text, said)
		}
	}
	for _, other := range not {
		if strings.Contains(said, other) {
			l.Errorf("%s waits: %s", name, said)
		}
	}
}

func (l *line) ends(names ...string) {
	l.Helper()
	for _, name := range names {
		finish(l.T, l.pod(name), corev1.PodSucceeded, 0)
	}
}

// logs waits until the scheduler's log says each of some texts.
func (l *line) logs(texts ...string) {
	l.Helper()
	l.eventually(fmt.Sprintf("the scheduler's log to say %q", texts), func() bool {
		log, err := os.ReadFile(l.scheduler.LogPath())
		if err != nil {
			l.Fatal(err)
		}
		for _, text := range texts {
			if !strings.Contains(string(log), text) {
				return false
			}
		}
		return true
	})
}

// What the scheduler says of who is promised a start, by deadlines or by how long others have run, and of who is kept from the node.
const (
	promised = "kept for it, and it starts there by"
	expected = "kept for it, and it is expected to start there by"
	kept     = "room that is promised to a job that comes first"
)

// noLedger is what the scheduler's log says of a ledger that cannot be asked.
const noLedger = "The ledger does not say how long jobs have run"

// TestALearntPromiseIsKept: by what the ledger has written down of jobs without deadlines one is promised its start. Who is expected to be gone by
// then runs beside it, who is not waits, and it starts when they have ended. So it is after the ledger has died.
func TestALearntPromiseIsKept(t *testing.T) {
	l := newLine(t)
	runs := l.keep(0)
	l.schedule(runs.URL, runs.CAFile)
	for round, name := range []string{"while the ledger answers", "after it has died"} {
		t.Log(name)
		hour, large, day, minute := fmt.Sprint("hour-", round), fmt.Sprint("large-", round), fmt.Sprint("day-", round), fmt.Sprint("minute-", round)
		l.comes(hour, 4, 0)
		l.runs(hour)
		l.comes(large, 8, 0)
		l.waits(large, expected)
		if round == 0 {
			if err := runs.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		l.comes(day, 1, 0)
		l.waits(day, kept)
		l.comes(minute, 2, 0)
		l.runs(minute)
		l.ends(hour, minute)
		l.runs(large)
		if node := l.pod(day).Spec.NodeName; node != "" {
			t.Errorf("%s runs on %s, which was promised to another", day, node)
		}
		l.ends(large)
		l.runs(day)
		l.ends(day)
	}
}

// TestWithoutALedgerDeadlinesAloneCount: whatever keeps the ledger from answering, jobs start, those are promised a start that wait for
// who has a deadline, and no others.
func TestWithoutALedgerDeadlinesAloneCount(t *testing.T) {
	for name, tc := range map[string]struct {
		// ledger is where one is, and by what authority.
		ledger func(*line) (address, authority string)
		// says is what the scheduler's log says of it.
		says string
	}{
		"nobody is there": {func(l *line) (string, string) {
			runs := l.keep(0)
			if err := runs.Kill(); err != nil {
				l.Fatal(err)
			}
			return runs.URL, runs.CAFile
		}, "connection refused"},
		"it takes its time": {func(l *line) (string, string) { return l.slow() }, "deadline exceeded"},
		"it shows another's certificate": {func(l *line) (string, string) {
			authority, _, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
			if err != nil {
				l.Fatal(err)
			}
			return l.keep(0).URL, l.file(authority)
		}, "certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			l.schedule(tc.ledger(l))
			l.comes("limited", 4, 3600)
			l.runs("limited")
			l.comes("large", 8, 0)
			l.waits("large", promised, expected)
			l.comes("minute", 2, 0)
			l.waits("minute", kept)
			l.comes("short", 1, 600)
			l.runs("short")
			l.ends("limited", "short")
			l.runs("large")
			l.logs(noLedger, tc.says)
			l.comes("whole", 8, 0)
			l.waits("whole", "too few free GPUs", promised, expected)
		})
	}
}

// TestALedgerThatComesLaterIsLearntFrom: it is asked again each minute.
func TestALedgerThatComesLaterIsLearntFrom(t *testing.T) {
	bounds.SkipInShort(t)
	l := newLine(t)
	before := l.keep(0)
	if err := before.Kill(); err != nil {
		t.Fatal(err)
	}
	l.schedule(before.URL, before.CAFile)
	l.logs(noLedger)
	l.comes("hour", 4, 0)
	l.runs("hour")
	l.comes("large", 8, 0)
	l.keep(before.Port())
	passing := 0
	l.eventually("the large job to be promised its start", func() bool {
		passing++ // whoever waits is tried when somebody ends
		name := fmt.Sprint("passing-", passing)
		l.comes(name, 1, 600)
		l.runs(name)
		l.ends(name)
		return strings.Contains(l.says("large"), expected)
	})
	l.ends("hour")
	l.runs("large")
}

// slow is a server that takes every question, and answers none.
func (l *line) slow() (address, authority string) {
	l.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	l.Cleanup(server.Close)
	return server.URL, l.file(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// file writes a certificate.
func (l *line) file(certificate []byte) string {
	l.Helper()
	path := filepath.Join(l.TempDir(), "ca.crt")
	if err := os.WriteFile(path, certificate, 0o600); err != nil {
		l.Fatal(err)
	}
	return path
}

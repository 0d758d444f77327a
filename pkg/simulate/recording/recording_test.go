package recording

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"g8s.host/gpu-scheduler/pkg/ledger"
)

const (
	nodeLine  = `{"at":"2026-03-02T09:00:00Z","type":"ADDED","object":{"kind":"Node","metadata":{"name":"n","resourceVersion":"5"}}}` + "\n"
	beginning = `{"at":"2026-03-02T09:00:01Z","type":"BOOKMARK","object":null}` + "\n"
	later     = `{"at":"2026-03-02T09:00:03Z","type":"ADDED","object":{"kind":"Pod","metadata":{"name":"b","resourceVersion":"9"}}}` + "\n"
	sooner    = `{"at":"2026-03-02T09:00:04Z","type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","resourceVersion":"8"}}}` + "\n"
)

func TestReadOrdersByRevision(t *testing.T) {
	got, err := Read(strings.NewReader(nodeLine + beginning + later + sooner + `{"at":"2026-0`))
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 2, 9, 0, 1, 0, time.UTC)
	pod := func(name, revision string) *corev1.Pod {
		return &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: revision}}
	}
	want := &Recording{
		Start: at,
		Nodes: []*corev1.Node{{TypeMeta: metav1.TypeMeta{Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "5"}}},
		Events: []Event{
			{Type: watch.Added, At: at.Add(3 * time.Second), Revision: 8, Pod: pod("a", "8")},
			{Type: watch.Added, At: at.Add(2 * time.Second), Revision: 9, Pod: pod("b", "9")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("recording (-want +got):\n%s", diff)
	}
}

// TestWhatALedgerSaidIsReadAgain, without the names of users.
func TestWhatALedgerSaidIsReadAgain(t *testing.T) {
	var out strings.Builder
	r := Recorder{Clock: clock.RealClock{}, Runs: []ledger.Run{{Namespace: "team", User: "ada@example.com", Pool: "train", GPUs: 8, Seconds: 60}}}
	r.encoder = json.NewEncoder(&out)
	r.writeRuns()
	if r.err != nil {
		t.Fatal(r.err)
	}
	got, err := Read(strings.NewReader(nodeLine + out.String() + beginning))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]ledger.Run{{Namespace: "team", Pool: "train", GPUs: 8, Seconds: 60}}, got.Runs); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"nothing":                        {"", "ends before all objects are listed"},
		"a recording that was cut short": {nodeLine, "ends before all objects are listed"},
		"another kind of file":           {"name,gpu\n", "reading event 1"},
		"another kind of object": {
			`{"type":"ADDED","object":{"kind":"Secret","metadata":{"resourceVersion":"1"}}}`, `it is of a "Secret"`,
		},
		"runs after it has begun":      {nodeLine + beginning + `{"type":"ADDED","object":{"kind":"RunList"}}`, `it is of a "RunList"`},
		"an object without a revision": {`{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p"}}}`, "reading the revision of Pod p"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, err := Read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestTrimKeepsWhatASchedulerLooksAt has secrets in it that a recording must not.
func TestTrimKeepsWhatASchedulerLooksAt(t *testing.T) {
	const pod = `
kind: Pod
metadata:
  name: p
  managedFields: [{manager: kubectl}]
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"env":"secret"}', g8s.host/gpu-share: 2Gi}
spec:
  nodeName: n
  priority: 7
  containers:
  - name: main
    image: i
    command: [secret]
    env: [{name: TOKEN, value: secret}]
    resources: {requests: {nvidia.com/gpu: "1"}}
status:
  phase: Pending
  hostIP: 10.0.0.1
  nominatedNodeName: n
  conditions: [{type: Ready, status: "False"}, {type: PodScheduled, status: "False"}]
`
	const want = `
kind: Pod
metadata:
  name: p
  annotations: {g8s.host/gpu-share: 2Gi}
spec:
  nodeName: n
  priority: 7
  containers:
  - name: main
    image: i
    resources: {requests: {nvidia.com/gpu: "1"}}
status:
  phase: Pending
  nominatedNodeName: n
  conditions: [{type: PodScheduled, status: "False"}]
`
	got := object(t, pod)
	trimObject(got)
	if diff := cmp.Diff(object(t, want), got); diff != "" {
		t.Errorf("trimmed (-want +got):\n%s", diff)
	}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

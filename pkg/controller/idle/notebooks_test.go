package idle

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/test/fixture"
)

const (
	notebooks = 200
	// ticks are eight hours of looking.
	ticks   = 96
	timeout = 30 * time.Minute
	scrape  = 30 * time.Second
)

// prometheus knows what the GPUs of notebooks did: every other one computes for a minute every twenty, the others never do.
// It fails and lies as long as it is unwell.
type prometheus struct {
	// mu is held while a question is answered: a look asks two at once.
	mu     sync.Mutex
	random *rand.Rand
	unwell bool
	began  time.Time
	asked  int
}

func busyNotebook(i int) bool { return i%2 == 0 }

// load is what the exporter of a notebook's node measured at a time, false for nothing.
func (p *prometheus) load(i int, at time.Time) (float64, bool) {
	second := int64(at.Sub(p.began).Seconds()) + int64(i)*97
	if p.unwell && (second/600+int64(i))%11 == 0 {
		return 0, false // the exporter is away for ten minutes now and then
	}
	if again := (second + int64(i)*31) % 1800; p.unwell && again < 120 {
		return 0, again >= 60 // an exporter that is started again is away for a minute, and knows nothing for another
	}
	if busyNotebook(i) && second%1200 >= 600 && second%1200 < 660 {
		return 60 + float64(second%40), true
	}
	return float64(second % 3), true
}

// busiest is what max_over_time says of a step that ends at a time, and count what count_over_time does.
func (p *prometheus) busiest(i int, end time.Time) (most float64, count int) {
	for at := end.Add(-step + scrape); !at.After(end); at = at.Add(scrape) {
		if at.Before(p.began) {
			continue
		}
		if v, ok := p.load(i, at); ok {
			most, count = max(most, v), count+1
		}
	}
	return most, count
}

type answered struct {
	Metric map[string]string `json:"metric"`
	Values [][2]any          `json:"values"`
}

func (p *prometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if err := r.ParseForm(); err != nil || !strings.Contains(r.Form.Get("query"), gpumetrics.MetricUtilization) {
		http.Error(w, "what?", http.StatusBadRequest)
		return
	}
	if p.unwell && p.random.IntN(3) == 0 {
		p.fail(w)
		return
	}
	number := func(name string) time.Time {
		f, _ := strconv.ParseFloat(r.Form.Get(name), 64)
		return time.UnixMilli(int64(f * 1000))
	}
	start, end := number("start"), number("end")
	skew := time.Duration(0)
	if wrong := rand.New(rand.NewPCG(uint64(end.Unix()), 1)); p.unwell && wrong.IntN(10) == 0 {
		skew = time.Duration(wrong.IntN(40)-20) * time.Minute // its clock is wrong at that time
	}
	series := []answered{}
	for i := range notebooks {
		if p.unwell && p.random.IntN(50) == 0 {
			continue // it forgets one
		}
		if strings.HasPrefix(r.Form.Get("query"), "count_over_time(") {
			series = append(series, p.counts(i, start, end, skew))
		} else {
			series = append(series, p.answers(i, start, end, skew)...)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": series}})
}

func (p *prometheus) counts(i int, start, end time.Time, skew time.Duration) answered {
	out := answered{Metric: labelsOf(i, "a")}
	for at := start; !at.After(end); at = at.Add(step) {
		if _, count := p.busiest(i, at.Add(skew)); count > 0 {
			out.Values = append(out.Values, [2]any{float64(at.UnixMilli()) / 1000, strconv.Itoa(count)})
		}
	}
	return out
}

func labelsOf(i int, instance string) map[string]string {
	return map[string]string{"UUID": fmt.Sprintf("GPU-%d", i), "Hostname": fmt.Sprintf("n%d", i/8), "gpu": strconv.Itoa(i % 8), "instance": instance}
}

// answers are the series of a notebook's GPU: of one exporter, or of two that came one after the other.
func (p *prometheus) answers(i int, start, end time.Time, skew time.Duration) []answered {
	out := []answered{{Metric: labelsOf(i, "a")}}
	for at := start; !at.After(end); at = at.Add(step) {
		value, count := p.busiest(i, at.Add(skew))
		if count == 0 {
			continue
		}
		text := strconv.FormatFloat(value, 'f', -1, 64)
		if p.unwell {
			switch p.random.IntN(60) {
			case 0:
				text = "NaN"
			case 1:
				text = "-1"
			case 2:
				text = "4294967295" // what DCGM says where it knows nothing
			case 3:
				out = append(out, answered{Metric: labelsOf(i, "b"+strconv.Itoa(len(out)))})
			}
		}
		last := &out[len(out)-1]
		last.Values = append(last.Values, [2]any{float64(at.UnixMilli()) / 1000, text})
	}
	return out
}

func (p *prometheus) fail(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	switch p.random.IntN(6) {
	case 0:
		w.WriteHeader(http.StatusInternalServerError)
	case 1:
		_, _ = fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"UUID":"GPU-0"`)
	case 2:
		_, _ = fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	case 3:
		_, _ = fmt.Fprint(w, `{"status":"success","warnings":["a store is away"],"data":{"resultType":"matrix","result":[]}}`)
	case 4:
		_, _ = fmt.Fprint(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
	case 5:
		panic(http.ErrAbortHandler) // the connection breaks
	}
}

// notebook is a Deployment with its one pod, which runs since noon.
func notebook(i int) (*appsv1.Deployment, *corev1.Pod) {
	labels := map[string]string{g8s.LabelJob: fmt.Sprintf("nb-%d", i), g8s.LabelJobType: "notebook"}
	template := fixture.Pod("x").GPUs(1).Obj()
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprintf("notebook-nb-%d", i), UID: types.UID(fmt.Sprint("d", i)), Labels: labels,
			Annotations: map[string]string{g8s.AnnotationIdleTimeout: timeout.String()},
		},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](1), Template: corev1.PodTemplateSpec{Spec: template.Spec}},
	}
	pod := fixture.Pod(fmt.Sprintf("notebook-nb-%d-x", i)).GPUs(1).Obj()
	pod.Namespace, pod.Labels, pod.Spec.NodeName, pod.Status.Phase = "team", labels, fmt.Sprintf("n%d", i/8), corev1.PodRunning
	pod.Annotations = map[string]string{g8s.AnnotationGPUDevices: fmt.Sprintf(`{"version":1,"containers":{"main":[{"uuid":"GPU-%d","index":%d}]}}`, i, i%8)}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}}}
	return deployment, pod
}

// paused are the notebooks that are, whose pods go.
func paused(t *testing.T, cluster client.Client) (busy, idle int) {
	t.Helper()
	for i := range notebooks {
		deployment, pod := notebook(i)
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment); err != nil {
			t.Fatal(err)
		}
		if jobplan.StateOf(deployment) != jobplan.StatePaused {
			continue
		}
		if err := client.IgnoreNotFound(cluster.Delete(t.Context(), pod)); err != nil {
			t.Fatal(err)
		}
		if busyNotebook(i) {
			busy++
			t.Errorf("notebook %d works, and was paused: %s", i, deployment.Annotations[g8s.AnnotationPausedBecause])
		} else {
			idle++
		}
	}
	return busy, idle
}

// TestNoBusyNotebookIsPaused has 200 notebooks watched for a working day by a Prometheus that fails and lies, and then an hour by one
// that is well.
func TestNoBusyNotebookIsPaused(t *testing.T) {
	clock := testclock.NewFakeClock(noon)
	source := &prometheus{random: rand.New(rand.NewPCG(1, 7)), unwell: true, began: noon}
	server := httptest.NewServer(source)
	defer server.Close()
	metrics, err := gpumetrics.NewClient(server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	var objects []client.Object
	for i := range notebooks {
		deployment, pod := notebook(i)
		objects = append(objects, deployment, pod)
	}
	cluster := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(objects...).Build()
	recorder := events.NewFakeRecorder(10000)
	watcher := &Watcher{Client: cluster, Live: cluster, Events: recorder, Clock: clock, Prometheus: metrics, Settings: Settings{Below: 5, WarnAfter: 20 * time.Minute}}
	refused := 0
	look := func(ticks int) {
		for range ticks {
			clock.Step(checkInterval)
			if watcher.checkJobs(t.Context()) != nil {
				refused++
			}
			if busy, _ := paused(t, cluster); busy > 0 {
				t.FailNow()
			}
		}
	}
	look(ticks)
	_, early := paused(t, cluster)
	source.unwell = false
	look(12)
	_, idle := paused(t, cluster)
	t.Logf("%d of %d questions were not answered; of %d idle notebooks %d were paused in the bad day, %d after a good hour",
		refused, ticks+12, notebooks/2, early, idle)
	if idle != notebooks/2 || refused == 0 {
		t.Errorf("%d idle notebooks are paused, want %d", idle, notebooks/2)
	}
}

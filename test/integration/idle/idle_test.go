// Package idle has a notebook whose GPU does nothing paused by the controller of the manifests, with its own rights, on a
// real control plane; what Prometheus says is made up.
package idle

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

const (
	patience  = bounds.Patience
	namespace = metav1.NamespaceDefault
)

var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
)

func TestMain(m *testing.M) {
	fleet := sandbox.DefaultFleet()
	options := sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet}
	os.Exit(sandboxtest.Main(m, options, func(ctx context.Context, s *sandbox.Sandbox) (err error) {
		cluster = s
		if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
			return err
		}
		if err := cluster.InstallScheduler(ctx); err != nil {
			return err
		}
		if _, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
			return err
		}
		return cluster.InstallController(ctx)
	}))
}

// started submits a notebook with a GPU, waits until it runs, and has it run for an hour already.
func started(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	text := fmt.Sprintf("kind: notebook\njob: {name: %s}\nenvironment: {image: jupyter}\nresources: {pool: training-pool, gpu: 1, memory: 1Gi, idle-timeout: 10m}\n", name)
	docs, diagnostics := workload.Parse(name, []byte(text))
	if len(diagnostics) > 0 {
		t.Fatalf("%v in\n%s", diagnostics, text)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	writer, err := submit.Connect(cluster.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	if err := writer.Create(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	var pod *corev1.Pod
	eventually(t, name+" to run", func() bool {
		list, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "g8s.host/job=" + name, FieldSelector: "status.phase=Running"})
		if err != nil || len(list.Items) != 1 || len(list.Items[0].Status.ContainerStatuses) != 1 {
			return false
		}
		pod = &list.Items[0]
		return true
	})
	status := pod.Status.ContainerStatuses[0]
	status.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(time.Now().Add(-time.Hour))}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"containerStatuses": []corev1.ContainerStatus{status}}})
	if err != nil {
		t.Fatal(err)
	}
	if pod, err = client.CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	return pod
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}

// prometheus says of each card how busy it is, by the GPUs of pods.
func prometheus(t *testing.T, load map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		number := func(name string) float64 { f, _ := strconv.ParseFloat(r.Form.Get(name), 64); return f }
		var series []map[string]any
		for uuid, percent := range load {
			if strings.HasPrefix(r.Form.Get("query"), "count_over_time") {
				percent = "10"
			}
			var values [][2]any
			for at := number("start"); at <= number("end")+1; at += 300 {
				values = append(values, [2]any{at, percent})
			}
			series = append(series, map[string]any{"metric": map[string]string{"UUID": uuid}, "values": values})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "matrix", "result": series}})
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// cardOf is the card that the scheduler gave a pod.
func cardOf(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	var assigned struct {
		Containers map[string][]struct{ UUID string }
	}
	if err := json.Unmarshal([]byte(pod.Annotations["g8s.host/gpu-devices"]), &assigned); err != nil || len(assigned.Containers["main"]) != 1 {
		t.Fatalf("cards %v of pod %s, error %v", assigned, pod.Name, err)
	}
	return assigned.Containers["main"][0].UUID
}

func TestAnIdleNotebookIsPausedAndABusyOneIsNot(t *testing.T) {
	idle, busy := started(t, "idle"), started(t, "busy")
	url := prometheus(t, map[string]string{cardOf(t, idle): "0", cardOf(t, busy): "80"})
	if _, err := cluster.StartController(t.Context(), sandbox.ControllerOptions{Args: []string{"--prometheus-url=" + url, "--advice-after=0"}}); err != nil {
		t.Fatal(err)
	}
	reader := inventory.NewReader(client)
	eventually(t, "the idle notebook to be paused", func() bool {
		job, err := reader.Job(t.Context(), namespace, "idle")
		return err == nil && job.Status == inventory.StatusSuspended && strings.Contains(job.Message, "less than 5% busy for 1h")
	})
	eventually(t, "its event", func() bool {
		list, err := client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=PausedIdleJob"})
		return err == nil && len(list.Items) == 1 && list.Items[0].InvolvedObject.Name == "notebook-idle"
	})
	job, err := reader.Job(t.Context(), namespace, "busy")
	if err != nil || job.Status != inventory.StatusRunning {
		t.Errorf("the busy notebook is %s, error %v", job.Status, err)
	}
}

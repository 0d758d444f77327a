package spot

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/bounds"
)

// patience is how long a test waits for what takes seconds on an idle machine.
const patience = bounds.Patience

// env is one test's SpotPool, pool and namespace, which have one name.
type env struct {
	*testing.T
	name string
}

func newEnv(t *testing.T, name string) *env {
	t.Helper()
	e := &env{T: t, name: name}
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *env) kubectl(args ...string) string {
	e.Helper()
	out, err := cluster.RunKubectl(e.Context(), args...)
	if err != nil {
		e.Fatal(err)
	}
	return string(out)
}

// apply applies a document, and returns what the API server said.
func (e *env) apply(text string) error {
	e.Helper()
	file := filepath.Join(e.TempDir(), "document.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	_, err := cluster.RunKubectl(e.Context(), "apply", "--server-side", "--force-conflicts", "-f", file)
	return err
}

// simulated is a SpotPool of simulated machines with more fields of its spec, such as "minimum: 2, maximum: 4".
func (e *env) simulated(spec string) string {
	return fmt.Sprintf(`{apiVersion: g8s.host/v1alpha1, kind: SpotPool, metadata: {name: %s}, spec: {
  pool: %s, gpuType: A100-80G, provider: {name: Simulated}, drainSeconds: 8, idleSeconds: 10, waitSeconds: 2, %s,
  template: {instanceTypes: [big, small], zones: [{name: a}, {name: b}], gpus: 8,
    simulated: {cpu: "64", memory: 512Gi, bootSeconds: 2, machinesPerZone: 2}}}}`, e.name, e.name, spec)
}

// must applies a document that is as it must be.
func (e *env) must(text string) {
	e.Helper()
	if err := e.apply(text); err != nil {
		e.Fatal(err)
	}
}

// status is what the SpotPool says.
func (e *env) status() names.SpotPoolStatus {
	e.Helper()
	var pool names.SpotPool
	if err := json.Unmarshal([]byte(e.kubectl("get", "spotpool", e.name, "-o", "json")), &pool); err != nil {
		e.Fatal(err)
	}
	return pool.Status
}

// joined waits until so many machines are ready nodes, and none is on its way or to go.
func (e *env) joined(count int) []names.SpotMachine {
	e.Helper()
	var status names.SpotPoolStatus
	e.eventually(fmt.Sprintf("%d machines to have joined", count), func(context.Context) (bool, error) {
		status = e.status()
		return int(status.Joined) == count && len(status.Machines) == count, nil
	})
	return status.Machines
}

// node is a node, nil if there is none.
func (e *env) node(name string) *corev1.Node {
	node, err := client.CoreV1().Nodes().Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return node
}

// submit creates a training job, as gpuctl does, whose pods ask for a checkpoint if it is to be saved.
func (e *env) submit(name string, nodes int, saves bool) {
	e.Helper()
	text := fmt.Sprintf("kind: training\njob: {name: %s, retries: 0}\nenvironment: {image: busybox}\nresources:\n  pool: %s\n  gpu: 8\n  memory: 8Gi\n", name, e.name)
	if nodes > 1 {
		text += fmt.Sprintf("  nodes: %d\n", nodes)
	}
	docs, diagnostics := workload.Parse(name, []byte(text))
	if len(diagnostics) > 0 {
		e.Fatalf("%v in\n%s", diagnostics, text)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: e.name})
	if err != nil {
		e.Fatal(err)
	}
	if top, ok := objects[0].(*batchv1.Job); ok && saves {
		top.Spec.Template.Annotations = map[string]string{names.AnnotationCheckpoint: names.True}
	}
	if err := writer.Create(e.Context(), objects); err != nil {
		e.Fatal(err)
	}
}

// pods are those of a job that run.
func (e *env) pods(name string) []corev1.Pod {
	e.Helper()
	list, err := client.CoreV1().Pods(e.name).List(e.Context(), metav1.ListOptions{LabelSelector: names.LabelJob + "=" + name})
	if err != nil {
		e.Fatal(err)
	}
	var out []corev1.Pod
	for _, pod := range list.Items {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	return out
}

// running waits until so many pods of a job run.
func (e *env) running(name string, count int) []corev1.Pod {
	e.Helper()
	var pods []corev1.Pod
	e.eventually(fmt.Sprintf("%d pods of %s to run", count, name), func(context.Context) (bool, error) {
		pods = e.pods(name)
		return len(pods) == count, nil
	})
	return pods
}

// told waits for an event.
func (e *env) told(name, reason, text string) {
	e.Helper()
	e.eventually("the event "+reason+" on "+name, func(ctx context.Context) (bool, error) {
		list, err := client.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			return false, err
		}
		for _, event := range list.Items {
			if strings.HasPrefix(event.Regarding.Name, name) && strings.Contains(event.Note, text) {
				return true, nil
			}
		}
		return false, nil
	})
}

// gone deletes the SpotPool, and waits until it and its nodes are gone.
func (e *env) gone() {
	e.Helper()
	e.kubectl("delete", "spotpool", e.name, "--wait=false")
	e.eventually("the SpotPool and its nodes to be gone", func(ctx context.Context) (bool, error) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: names.LabelSpotPool + "=" + e.name})
		pools := e.kubectl("get", "spotpools", "-o", "name")
		return err == nil && len(nodes.Items) == 0 && !strings.Contains(pools, "/"+e.name+"\n"), err
	})
}

func (e *env) eventually(what string, done wait.ConditionWithContextFunc) {
	e.Helper()
	if err := wait.PollUntilContextTimeout(e.Context(), 100*time.Millisecond, patience, true, done); err != nil {
		status, _ := cluster.RunKubectl(context.Background(), "get", "spotpool", e.name, "-o", "yaml", "--ignore-not-found")
		nodes, _ := cluster.RunKubectl(context.Background(), "get", "nodes", "-o", "yaml")
		e.Fatalf("waiting for %s: %v\n%s\n%s\n%s", what, err, status, nodes, controller.LogTail())
	}
}

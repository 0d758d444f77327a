package clustertest

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Job is what a test submits.
type Job struct {
	Name string
	// Kind is training unless it says otherwise.
	Kind     workload.Kind
	Priority string
	GPUs     int
	// Nodes is more than one for a gang.
	Nodes int
	// Pool is that of the test unless it says otherwise.
	Pool string
	// Topology is resources.topology of its YAML.
	Topology string
	// Leaves is after how many seconds the job leaves a node that is gone, instead of Kubernetes' five minutes.
	Leaves *int
	// Retries is how often a training job may fail.
	Retries int
	// Pod are annotations of its pods, which tell among others what the simulated containers do.
	Pod map[string]string
	// Spec changes its pods beyond what YAML says, nil for nothing.
	Spec func(*corev1.PodSpec)
}

func (j Job) yaml(pool string) string {
	kind := cmp.Or(j.Kind, workload.KindTraining)
	text := fmt.Sprintf("kind: %s\njob: {name: %s, priority: %s", kind, j.Name, cmp.Or(j.Priority, "medium"))
	if kind == workload.KindTraining {
		text += fmt.Sprintf(", retries: %d", j.Retries)
	}
	text += fmt.Sprintf("}\nenvironment: {image: busybox}\nresources:\n  gpu: %d\n  memory: 8Gi\n", j.GPUs)
	if pool := cmp.Or(j.Pool, pool); pool != "" {
		text += "  pool: " + pool + "\n"
	}
	if j.Topology != "" {
		text += "  topology: " + j.Topology + "\n"
	}
	if j.Nodes > 1 {
		text += fmt.Sprintf("  nodes: %d\n", j.Nodes)
	}
	if j.Leaves != nil {
		text += "  tolerations:\n"
		for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
			text += fmt.Sprintf("  - {key: %s, operator: Exists, effect: NoExecute, toleration-seconds: %d}\n", key, *j.Leaves)
		}
	}
	return text
}

// Submit creates a job from its YAML, as gpuctl does.
func (e *Env) Submit(j Job) {
	e.Helper()
	text := j.yaml(e.Pool)
	docs, diagnostics := workload.Parse(j.Name, []byte(text))
	if len(diagnostics) > 0 {
		e.Fatalf("%v in\n%s", diagnostics, text)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: e.Namespace})
	if err != nil {
		e.Fatal(err)
	}
	switch top := objects[0].(type) {
	case *batchv1.Job:
		top.Spec.Template.Annotations = j.Pod
		if j.Spec != nil {
			j.Spec(&top.Spec.Template.Spec)
		}
	case *appsv1.Deployment:
		top.Spec.Template.Annotations = j.Pod
	}
	if err := e.Cluster.Writer.Create(e.Context(), objects); err != nil {
		e.Fatal(err)
	}
}

// Start submits a job and waits until its pods run, which it returns by rank.
func (e *Env) Start(j Job) []*corev1.Pod {
	e.Helper()
	e.Submit(j)
	return e.Running(j.Name, max(j.Nodes, 1))
}

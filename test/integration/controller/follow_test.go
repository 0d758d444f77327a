package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/submit"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// follows submits a job that starts after others.
func (e *env) follows(name, after, jobs string) {
	e.Helper()
	if err := e.writer().Create(e.Context(), e.rendered(fmt.Sprintf("name: %s, depends-on: [%s], after: %s", name, jobs, after))); err != nil {
		e.Fatal(err)
	}
}

func (e *env) writer() *submit.Client {
	e.Helper()
	writer, err := submit.Connect(cluster.RESTConfig())
	if err != nil {
		e.Fatal(err)
	}
	return writer
}

// rendered are the objects of a job, given the fields of its job section.
func (e *env) rendered(job string) []client.Object {
	e.Helper()
	text := fmt.Sprintf("kind: training\njob: {%s}\nenvironment: {image: busybox}\n"+
		"resources: {pool: %s, gpu: 1, cpu: 1, memory: 1Gi, time-limit: 1h}\n", job, e.Pool)
	docs, diagnostics := workload.Parse("job", []byte(text))
	if len(diagnostics) > 0 {
		e.Fatalf("%v in\n%s", diagnostics, text)
	}
	objects, _, err := render.Objects(docs[0], render.Options{Namespace: e.Namespace})
	if err != nil {
		e.Fatal(err)
	}
	return objects
}

func (e *env) job(name string) *batchv1.Job {
	e.Helper()
	job, err := cluster.Client.BatchV1().Jobs(e.Namespace).Get(e.Context(), name, metav1.GetOptions{})
	if err != nil {
		e.Fatal(err)
	}
	return job
}

func (e *env) eventuallyStarted(name string) {
	e.Helper()
	e.Eventually(name+" to start", func(context.Context) (bool, error) { return !ptr.Deref(e.job(name).Spec.Suspend, false), nil })
}

func (e *env) stillHeld(name string) {
	e.Helper()
	if job := e.job(name); !ptr.Deref(job.Spec.Suspend, false) || job.Status.StartTime != nil {
		e.Errorf("%s is not held: %+v", name, job.Status)
	}
}

// TestAJobStartsAfterOthers: when all of them have ended as it asks, those that were deleted since included, and those that
// come later than it.
func TestAJobStartsAfterOthers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.follows("eval", "ok", "first, second")
	short := map[string]string{sandbox.AnnotationRunFor: "1s"}
	e.Submit(clustertest.Job{Name: "first", GPUs: 1, Pod: short})
	e.Eventually("first to be struck off", func(context.Context) (bool, error) {
		return e.job("eval").Annotations["g8s.host/waits-for"] == "second", nil
	})
	e.stillHeld("eval")
	e.Kubectl("delete", "job", "first", "-n", e.Namespace)
	e.Submit(clustertest.Job{Name: "second", GPUs: 1, Pod: short})
	e.eventuallyStarted("eval")
	began, ended := e.job("eval").Status.StartTime, e.job("second").Status.CompletionTime
	if began != nil && (ended == nil || began.Before(ended)) {
		t.Errorf("it began at %v, and the last that it waits for ended at %v", began, ended)
	}
}

// TestAJobAfterOneThatFailed starts if it asks for no more than an end, and else does not.
func TestAJobAfterOneThatFailed(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.follows("report", "any", "train")
	e.follows("eval", "ok", "train")
	e.Submit(clustertest.Job{Name: "train", GPUs: 1, Retries: 0, Pod: map[string]string{sandbox.AnnotationFailAfter: "1s"}})
	e.eventuallyStarted("report")
	e.stillHeld("eval")
}

// TestARetryWaitsForThePodsOfItsLastRun: what the job starts after has ended long ago, and a pod of the run that was cancelled
// still writes.
func TestARetryWaitsForThePodsOfItsLastRun(t *testing.T) {
	bounds.SkipInShort(t)
	t.Parallel()
	e := newEnv(t)
	e.Submit(clustertest.Job{Name: "first", GPUs: 1, Pod: map[string]string{sandbox.AnnotationRunFor: "1s"}})
	e.follows("eval", "ok", "first")
	e.eventuallyStarted("eval")
	old := e.Running("eval", 1)[0]
	e.Kubectl("annotate", "pod", "-n", e.Namespace, old.Name, sandbox.AnnotationStopAfter+"=8s")
	writer := e.writer()
	ref := submit.Ref{Namespace: e.Namespace, Name: "eval"}
	if _, err := writer.Cancel(e.Context(), ref, submit.StepOptions{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if _, err := writer.Retry(e.Context(), ref, submit.EditOptions{Render: render.Options{Namespace: e.Namespace}}); err != nil {
		t.Fatal(err)
	}
	e.eventuallyStarted("eval")
	gone := e.Ended(old).Ended
	if fresh := e.Running("eval", 1)[0]; fresh.UID == old.UID || fresh.CreationTimestamp.Add(time.Second).Before(gone) {
		t.Errorf("pod %s was made at %s, and the last run ended at %s", fresh.Name, fresh.CreationTimestamp, gone)
	}
}

// TestAJobThatIsToWaitForNobodyStarts, and forgets what gpu-controller has written on it.
func TestAJobThatIsToWaitForNobodyStarts(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.follows("eval", "ok", "first, second")
	e.Submit(clustertest.Job{Name: "first", GPUs: 1, Pod: map[string]string{sandbox.AnnotationRunFor: "1s"}})
	e.Eventually("first to be struck off", func(context.Context) (bool, error) {
		return e.job("eval").Annotations["g8s.host/waits-for"] == "second", nil
	})
	options := submit.ApplyOptions{Render: render.Options{Namespace: e.Namespace}}
	if _, err := e.writer().Apply(e.Context(), e.rendered("name: eval"), options); err != nil {
		t.Fatal(err)
	}
	e.eventuallyStarted("eval")
	if left, ok := e.job("eval").Annotations["g8s.host/waits-for"]; ok {
		t.Errorf("it waits for %q, still", left)
	}
}

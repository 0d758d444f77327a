package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// The size of the cluster that lists are measured on.
const (
	benchNamespaces = 1000
	benchPods       = 10_000
)

// crowd serves the lists of a large cluster, as an API server encodes them, and counts the requests.
type crowd struct {
	bodies   map[string][]byte
	requests atomic.Int32
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.requests.Add(1)
	body, ok := c.bodies[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	_, _ = w.Write(body)
}

// newCrowd has a job in each namespace, with ten pods each.
func newCrowd(tb testing.TB) *crowd {
	tb.Helper()
	jobs := &batchv1.JobList{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "JobList"}}
	pods := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}}
	for i := range benchNamespaces {
		meta := metav1.ObjectMeta{
			Name: "sft", Namespace: fmt.Sprintf("team-%d", i),
			Labels: map[string]string{names.LabelJob: "sft", names.LabelJobType: "training", names.LabelPool: "train"},
		}
		container := corev1.Container{Name: "main", Image: "registry.example.com/train:v1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{names.ResourceGPU: resource.MustParse("1")},
		}}
		spec := corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i), Containers: []corev1.Container{container}}
		parallelism := int32(benchPods / benchNamespaces)
		jobs.Items = append(jobs.Items, batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			Parallelism: &parallelism, Template: corev1.PodTemplateSpec{Spec: spec},
		}})
		for j := range benchPods / benchNamespaces {
			pod := corev1.Pod{ObjectMeta: meta, Spec: spec, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
			pod.Name = fmt.Sprintf("sft-%d", j)
			pods.Items = append(pods.Items, pod)
		}
	}
	deployments := &appsv1.DeploymentList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DeploymentList"}}
	encoder := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	out := &crowd{bodies: map[string][]byte{}}
	for path, object := range map[string]runtime.Object{
		"/api/v1/pods": pods, "/apis/batch/v1/jobs": jobs, "/apis/apps/v1/deployments": deployments,
	} {
		body, err := runtime.Encode(encoder, object)
		if err != nil {
			tb.Fatal(err)
		}
		out.bodies[path] = body
	}
	return out
}

// listAll runs get jobs -A against the crowd.
func listAll(tb testing.TB, c *crowd) (code int, stdout string) {
	tb.Helper()
	front := httptest.NewServer(c)
	tb.Cleanup(front.Close)
	config := filepath.Join(tb.TempDir(), "config")
	text := "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a}}]\n" +
		"clusters: [{name: a, cluster: {server: \"" + front.URL + "\"}}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	streams, out, _ := TestIOStreams("")
	code = Run(tb.Context(), NewFactory(streams), []string{"gpuctl", "--kubeconfig", config, "get", "jobs", "-A"})
	return code, out.String()
}

func TestListingTenThousandPodsTakesSevenRequests(t *testing.T) {
	c := newCrowd(t)
	code, stdout := listAll(t, c)
	if lines := strings.Count(stdout, "\n"); code != 0 || lines != benchNamespaces+1 {
		t.Errorf("exit code %d with %d lines, want 0 with one for each of %d jobs and the headers", code, lines, benchNamespaces)
	}
	if got := c.requests.Load(); got != 7 {
		t.Errorf("%d requests, want 7: jobs, deployments and pods, the jobs and pods of others, and whether Kueue is there, in two versions", got)
	}
}

// BenchmarkGetJobs lists 1,000 jobs with 10,000 pods in 1,000 namespaces.
func BenchmarkGetJobs(b *testing.B) {
	c := newCrowd(b)
	for b.Loop() {
		if code, _ := listAll(b, c); code != 0 {
			b.Fatalf("exit code %d", code)
		}
	}
}

// BenchmarkStart starts gpuctl as a process of its own, for a command that needs no cluster.
func BenchmarkStart(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "gpuctl")
	build := exec.CommandContext(b.Context(), "go", "build", "-o", binary, "../cmd/gpuctl")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("building gpuctl: %v\n%s", err, out)
	}
	for b.Loop() {
		command := exec.CommandContext(b.Context(), binary, "version", "--client")
		command.Stdout = io.Discard
		if err := command.Run(); err != nil {
			b.Fatal(err)
		}
	}
}

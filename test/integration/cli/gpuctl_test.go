package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gpuctl "g8s.host/gpu-scheduler/cli"
)

// session is what one test has of the cluster: a namespace, and a user's kubeconfig.
type session struct {
	*testing.T
	namespace, kubeconfig string
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

func newSession(t *testing.T) *session {
	t.Helper()
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &session{T: t, namespace: namespace.Name, kubeconfig: server.kubeconfig}
}

// gpuctl runs the real command tree, in a pipe.
func (s *session) gpuctl(stdin string, args ...string) result {
	return s.gpuctlContext(s.Context(), stdin, args...)
}

func (s *session) gpuctlContext(ctx context.Context, stdin string, args ...string) result {
	streams, stdout, stderr := gpuctl.TestIOStreams(stdin)
	all := append([]string{"gpuctl", "--kubeconfig", s.kubeconfig, "-n", s.namespace}, args...)
	code := gpuctl.Run(ctx, gpuctl.NewFactory(streams), all)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// expect runs a command and demands its exit code, and a text on stderr.
func (s *session) expect(code int, text, stdin string, args ...string) result {
	s.Helper()
	got := s.gpuctl(stdin, args...)
	if got.code != code || !strings.Contains(got.stderr, text) {
		s.Errorf("gpuctl %s: exit code %d, want %d, with %q on stderr\nstdout: %s\nstderr: %s",
			strings.Join(args, " "), got.code, code, text, got.stdout, got.stderr)
	}
	return got
}

// objects counts what a job can be made of.
func (s *session) objects() int {
	s.Helper()
	jobs, err := client.BatchV1().Jobs(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	deployments, err := client.AppsV1().Deployments(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	services, err := client.CoreV1().Services(s.namespace).List(background, metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return len(jobs.Items) + len(deployments.Items) + len(services.Items)
}

func (s *session) wantObjects(want int) {
	s.Helper()
	if got := s.objects(); got != want {
		s.Errorf("the namespace has %d objects, want %d", got, want)
	}
}

// file writes a file of its own, and returns its path.
func (s *session) file(name, content string) string {
	s.Helper()
	path := filepath.Join(s.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func training(name string) string {
	return `kind: training
version: v0.1
job:
  name: ` + name + `
environment:
  image: busybox
  command: ["sleep", "60"]
resources:
  gpu: 1
  cpu: 1
  memory: 1Gi
`
}

func notebook(name string) string {
	return strings.Replace(training(name), "kind: training", "kind: notebook", 1)
}

func (s *session) node(name string, labels map[string]string) {
	s.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	if _, err := client.CoreV1().Nodes().Create(s.Context(), node, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := client.CoreV1().Nodes().Delete(background, name, metav1.DeleteOptions{}); err != nil {
			s.Error(err)
		}
	})
}

func (s *session) label(node, key string) string {
	s.Helper()
	got, err := client.CoreV1().Nodes().Get(s.Context(), node, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return got.Labels[key]
}

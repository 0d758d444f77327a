package sandbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

// TestSandbox starts two whole clusters side by side, lets pods run, succeed and fail on simulated nodes, and
// looks for what is left after Stop.
func TestSandbox(t *testing.T) {
	var boxes [2]*Sandbox
	var progress [2]bytes.Buffer // t.Output is not safe for two writers
	var g errgroup.Group
	for i := range boxes {
		g.Go(func() (err error) {
			o := FullOptions()
			o.Progress = &progress[i]
			boxes[i], err = Start(t.Context(), o)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatalf("%v\n%s%s", err, &progress[0], &progress[1])
	}
	for _, s := range boxes {
		t.Cleanup(func() { stopAndCheck(t, s) })
	}
	checkFleet(t, boxes[0])
	checkPods(t, boxes[1])
	checkSeparate(t, boxes[0], boxes[1])
}

func clientOf(t *testing.T, s *Sandbox) kubernetes.Interface {
	t.Helper()
	client, err := s.newClient()
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func checkFleet(t *testing.T, s *Sandbox) {
	t.Helper()
	list, err := clientOf(t, s).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != 64 {
		t.Errorf("got %d nodes, want 64", len(list.Items))
	}
	for i := range list.Items {
		if !isUsable(&list.Items[i]) {
			t.Errorf("node %s is not usable", list.Items[i].Name)
		}
	}
}

// checkPods binds pods to a node by hand, as no scheduler runs here.
func checkPods(t *testing.T, s *Sandbox) {
	t.Helper()
	pods := map[string]struct {
		annotations map[string]string
		want        corev1.PodPhase
	}{
		"runs":     {want: corev1.PodRunning},
		"succeeds": {annotations: map[string]string{AnnotationRunFor: "1s"}, want: corev1.PodSucceeded},
		"fails":    {annotations: map[string]string{AnnotationFailAfter: "1s", AnnotationExitCode: "42"}, want: corev1.PodFailed},
	}
	client := clientOf(t, s).CoreV1().Pods("default")
	for name, tc := range pods {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: tc.annotations},
			Spec: corev1.PodSpec{
				NodeName: "train-01", RestartPolicy: corev1.RestartPolicyNever,
				InitContainers: []corev1.Container{{Name: "init", Image: "none"}},
				Containers:     []corev1.Container{{Name: "main", Image: "none"}},
			},
		}
		if _, err := client.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range pods {
		pod := waitForPhase(t, s, name, tc.want)
		if name == "fails" && pod.Status.ContainerStatuses[0].State.Terminated.ExitCode != 42 {
			t.Errorf("pod %s ended with %+v, want exit code 42", name, pod.Status.ContainerStatuses[0].State.Terminated)
		}
	}
	logs, err := client.GetLogs("runs", &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(logs), "simulated node") {
		t.Errorf("got logs %q, error %v; want the introduction", logs, err)
	}
	if err := client.Delete(t.Context(), "runs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the deleted pod to go", func(ctx context.Context) bool {
		_, err := client.Get(ctx, "runs", metav1.GetOptions{})
		return err != nil
	})
}

func waitForPhase(t *testing.T, s *Sandbox, name string, want corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	poll(t, "pod "+name+" to be "+string(want), func(ctx context.Context) bool {
		var err error
		pod, err = clientOf(t, s).CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{})
		return err == nil && pod.Status.Phase == want
	})
	return pod
}

func poll(t *testing.T, what string, done func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 20*time.Second, true,
		func(ctx context.Context) (bool, error) { return done(ctx), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// checkSeparate makes sure that the two see nothing of each other.
func checkSeparate(t *testing.T, a, b *Sandbox) {
	t.Helper()
	if a.Dir() == b.Dir() || a.RESTConfig().Host == b.RESTConfig().Host {
		t.Fatalf("the sandboxes share %s or %s", a.Dir(), a.RESTConfig().Host)
	}
	list, err := clientOf(t, a).CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 0 {
		t.Errorf("got %d pods of the other sandbox, error %v", len(list.Items), err)
	}
}

func stopAndCheck(t *testing.T, s *Sandbox) {
	t.Helper()
	processes := s.Processes()
	if err := s.Stop(); err != nil {
		t.Errorf("stopping: %v", err)
	}
	for _, p := range processes {
		if IsAlive(p.PID()) {
			t.Errorf("%s still runs with process id %d", p.Name(), p.PID())
		}
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
	select {
	case err := <-s.Err():
		t.Errorf("a crash was reported: %v", err)
	default:
	}
}

func TestStartNamesTheCommandForMissingTools(t *testing.T) {
	dir := t.TempDir()
	_, err := Start(t.Context(), Options{BinDir: dir})
	if err == nil || !strings.Contains(err.Error(), ToolsCommand) {
		t.Errorf("got error %v, want one that names %q", err, ToolsCommand)
	}
}

func TestStartReportsAProgramThatDoesNotStart(t *testing.T) {
	bin := t.TempDir()
	for _, name := range (Options{}).requiredTools() {
		script := "#!/bin/sh\necho the disk is on fire\nexit 3\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(t.TempDir(), "box")
	_, err := Start(t.Context(), Options{BinDir: bin, Dir: dir})
	var exit *ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("got error %v, want an *ExitError", err)
	}
	if exit.Name != nameEtcd || !strings.Contains(exit.Tail, "the disk is on fire") {
		t.Errorf("got %+v, want etcd's name and its log", exit)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

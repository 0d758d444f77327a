package node

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/test/bounds"
)

// upWithin is how long a whole cluster with a real node may take to start.
var upWithin = bounds.Of(time.Minute)

// TestNothingStaysBehind starts a second sandbox with a real node beside that of the tests, kills its owner, and looks for
// what is left: processes, cgroups, network links.
func TestNothingStaysBehind(t *testing.T) {
	needTime(t)
	root := t.TempDir()
	program := func(args ...string) *exec.Cmd {
		return exec.Command(filepath.Join("..", "..", "bin", "gpu-sandbox"), append(args, "--dir", root, "--name", "second")...)
	}
	began := time.Now()
	var stderr bytes.Buffer
	up := program("up", "--real-node", "--nodes", "7", "--schedulers", "1")
	up.Stderr = &stderr
	kubeconfig, err := up.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	t.Cleanup(func() {
		if out, err := program("down").CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	took := time.Since(began).Round(100 * time.Millisecond)
	t.Logf("up took %s", took)
	if took > upWithin {
		t.Errorf("want %s at the most", upWithin)
	}
	runAPod(t, strings.TrimSpace(string(kubeconfig)))

	namespace, cgroups := nodeOf(t, filepath.Join(root, "second"))
	if got := processesIn(t, namespace); got < 5 { // its first, containerd, kubelet, the agent, and the pod's
		t.Fatalf("the node has %d processes, so that this would show nothing", got)
	}
	var state struct{ Supervisor int }
	data, err := os.ReadFile(filepath.Join(root, "second", "state.json"))
	if err == nil {
		err = json.Unmarshal(data, &state)
	}
	if err != nil || state.Supervisor == 0 {
		t.Fatalf("finding the owner: %v", err)
	}
	if err := syscall.Kill(state.Supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(pollEvery) {
		left := processesIn(t, namespace)
		_, dirErr := os.Stat(filepath.Join(root, "second"))
		var still []string
		for _, pattern := range cgroups {
			found, err := filepath.Glob(pattern)
			if err != nil {
				t.Fatal(err)
			}
			still = append(still, found...)
		}
		if left == 0 && os.IsNotExist(dirErr) && len(still) == 0 {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("left are %d processes, the folder (%v), and the cgroups %v", left, dirErr, still)
		}
	}
}

// runAPod runs a pod with cards on the second sandbox's node.
func runAPod(t *testing.T, kubeconfig string) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	second, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod := shape{parts: []part{{cards: 2}}}.pod("pod")
	pod.Spec.Volumes, pod.Spec.Containers[0].VolumeMounts, pod.Spec.Containers[0].Args = nil, nil, []string{"report"}
	pods := second.CoreV1().Pods(namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(patience); ; time.Sleep(pollEvery) {
		now, err := pods.Get(t.Context(), "pod", metav1.GetOptions{})
		if err == nil && now.Status.Phase == "Running" {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("the pod does not run: %+v, error %v", now.Status, err)
		}
	}
}

// nodeOf returns the PID namespace of a sandbox's real node, and where its cgroups are.
func nodeOf(t *testing.T, dir string) (namespace string, cgroups []string) {
	t.Helper()
	pid, err := os.ReadFile(filepath.Join(dir, "run", "real-node.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if namespace, err = os.Readlink(filepath.Join("/proc", strings.TrimSpace(string(pid)), "ns", "pid")); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "run", "*.cgroup"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got cgroups %v, error %v", names, err)
	}
	name := strings.TrimSuffix(filepath.Base(names[0]), ".cgroup")
	return namespace, []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name}
}

// processesIn counts the processes of a PID namespace. Those that have ended and are not reaped have none.
func processesIn(t *testing.T, namespace string) int {
	t.Helper()
	links, err := filepath.Glob("/proc/[0-9]*/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, link := range links {
		if got, err := os.Readlink(link); err == nil && got == namespace {
			count++
		}
	}
	return count
}

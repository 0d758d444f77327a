package documents

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"
)

// example is something that the case study shows in YAML or in code.
type example struct {
	shows   string
	differs bool
}

// examples are those of the case study, §2, §5, §6.1 and §7.2.
var examples = []example{
	{shows: "Node gpu-node-1"},
	{shows: "Pod gpu-training-job", differs: true},
	{shows: "Pod multi-gpu-job", differs: true},
	{shows: "Job ml-training-job"},
	{shows: "Deployment inference-service"},
	{shows: "GPUSchedulerConfig", differs: true},
	{shows: "ResourceQuota gpu-quota-ml-team", differs: true},
	{shows: "LimitRange gpu-limits", differs: true},
}

// TestCaseStudy applies the files of the case study as they are, with what they presuppose.
func TestCaseStudy(t *testing.T) {
	ctx := t.Context()
	var node corev1.Node
	if err := yaml.UnmarshalStrict([]byte(read(t, "node.yaml")), &node); err != nil {
		t.Fatal(err)
	}
	if err := register(ctx, &node, node.Status.Allocatable); err != nil {
		t.Fatal(err)
	}
	other := bare("gpu-node-2", map[string]string{"accelerator": "nvidia-tesla-t4"})
	if err := register(ctx, other, corev1.ResourceList{"nvidia.com/gpu": amount("4")}); err != nil {
		t.Fatal(err)
	}
	meta := metav1.ObjectMeta{Name: "ml-team"}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Run("Node gpu-node-1", func(t *testing.T) {
		shows(t, []string{"gpuctl", "get", "nodes", "gpu-node-1", "--no-headers"}, `^gpu-node-1 +Ready +default +nvidia-tesla-v100 +8 +0 +8 +32Gi `)
	})
	t.Run("Pod gpu-training-job", func(t *testing.T) {
		applyText(t, strings.Replace(read(t, "pod.yaml"), "spec:\n", "spec:\n  schedulerName: gpu-scheduler\n", 1))
		running(t, "default", "", "gpu-node-1", 1)
		kubectl(t, "delete", "pod", "gpu-training-job", "--now")
	})
	t.Run("Pod multi-gpu-job", func(t *testing.T) {
		_, err := cluster.Kubectl(ctx, "apply", "-f", filepath.Join("testdata", "affinity.yaml"))
		if err == nil || !strings.Contains(err.Error(), "Limit must be set for non overcommitable resources") {
			t.Fatalf("error %v, want that of missing limits", err)
		}
		whole := strings.Replace(read(t, "affinity.yaml"), "      requests:\n", "      limits:\n", 1)
		applyText(t, strings.Replace(whole, "spec:\n", "spec:\n  schedulerName: gpu-scheduler\n", 1))
		running(t, "default", "", "gpu-node-1", 1)
		kubectl(t, "delete", "pod", "multi-gpu-job", "--now")
	})
	t.Run("Job ml-training-job", func(t *testing.T) {
		apply(t, "claims.yaml")
		apply(t, "training.yaml")
		running(t, "ml-team", "app=ml-training", "gpu-node-1", 1)
	})
	t.Run("Deployment inference-service", func(t *testing.T) {
		apply(t, "inference.yaml")
		running(t, "ml-team", "app=inference-service", "gpu-node-2", 3)
	})
	t.Run("ResourceQuota gpu-quota-ml-team", func(t *testing.T) {
		apply(t, "quota.yaml")
		shows(t, []string{"gpuctl", "describe", "namespace", "ml-team"},
			`nvidia\.com/gpu +0 +4 +counts nothing: bound requests\.nvidia\.com/gpu`, `gpu-limits +Container +nvidia\.com/gpu +- +2 +1 `)
	})
}

// shows waits until a command prints what matches all of some regular expressions.
func shows(t *testing.T, args []string, want ...string) {
	t.Helper()
	var code int
	var stdout, stderr string
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		code, stdout, stderr = gpuctl(t, args)
		for _, pattern := range want {
			if code != 0 || !regexp.MustCompile(pattern).MatchString(stdout) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("exit code %d, want 0 and %q\n%s%s", code, want, stdout, stderr)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func apply(t *testing.T, name string) {
	t.Helper()
	kubectl(t, "apply", "-f", filepath.Join("testdata", name))
}

func applyText(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "object.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "-f", file)
}

func kubectl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := cluster.Kubectl(t.Context(), args...); err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// running waits until so many pods run, all on one node.
func running(t *testing.T, namespace, selector, node string, want int) {
	t.Helper()
	var pods *corev1.PodList
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		var err error
		if pods, err = client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector}); err != nil {
			return false, err
		}
		n := 0
		for i := range pods.Items {
			if pods.Items[i].Status.Phase == corev1.PodRunning && pods.Items[i].Spec.NodeName == node {
				n++
			}
		}
		return n == want, nil
	})
	if err != nil {
		for i := range pods.Items {
			t.Logf("%s is %s on %q: %v", pods.Items[i].Name, pods.Items[i].Status.Phase, pods.Items[i].Spec.NodeName, pods.Items[i].Status.Conditions)
		}
		t.Fatalf("%d pods on %s do not run", want, node)
	}
}

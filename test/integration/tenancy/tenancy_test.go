// Package tenancy applies the example of manifests/tenancy to a real API server, and works there as people of the team and as
// others: what they may, what the quota and the limits refuse, and what gpuctl shows of it.
package tenancy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	gpuctl "g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/test/clustertest"
	"g8s.host/gpu-scheduler/test/fixture"
)

const team = "ml-team"

var cluster = clustertest.Cluster{Fleet: clustertest.Pools(1, 2)}

func TestMain(m *testing.M) {
	cluster.Prepare = func(ctx context.Context) error { return cluster.ApplyManifests(ctx, manifests.FS, "tenancy") }
	cluster.Main(m)
}

// as runs gpuctl as somebody.
func as(t *testing.T, kubeconfig, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	streams, out, problems := gpuctl.TestIOStreams(stdin)
	code = gpuctl.Run(t.Context(), gpuctl.NewFactory(streams), append([]string{"gpuctl", "--kubeconfig", kubeconfig, "-n", team}, args...))
	return code, out.String(), problems.String()
}

func job(name string, gpus int) string {
	return fmt.Sprintf("kind: training\nversion: v0.1\njob: {name: %s}\nenvironment: {image: i, command: [sleep]}\n"+
		"resources: {pool: p000, gpu: %d, cpu: 1, memory: 1Gi}\n", name, gpus)
}

func user(t *testing.T, name string) string {
	t.Helper()
	kubeconfig, err := cluster.UserKubeconfig(name, name)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

func TestWhoMayWhat(t *testing.T) {
	engineer, stranger := user(t, "ml-engineer"), user(t, "stranger")
	reader, err := cluster.ServiceAccountKubeconfig(t.Context(), team, "ml-workload")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, kubeconfig, stdin string
		args                    []string
		fails                   bool
		says                    string
	}{
		{"the engineer creates a job", engineer, job("train", 1), []string{"create", "-f", "-"}, false, ""},
		{"and waits for it", engineer, "", []string{"wait", "train", "--for=running", "--timeout=1m"}, false, ""},
		{"and sees it", engineer, "", []string{"get", "jobs"}, false, "train"},
		{"and asks why", engineer, "", []string{"why", "train"}, false, "train"},
		{"the reader sees it, too", reader, "", []string{"describe", "job", "train"}, false, "train"},
		{"and deletes nothing", reader, "", []string{"delete", "train", "--yes"}, true, "forbidden"},
		{"and creates nothing", reader, job("mine", 1), []string{"create", "-f", "-"}, true, "forbidden"},
		{"a stranger sees nothing", stranger, "", []string{"get", "jobs"}, true, "forbidden"},
		{"the engineer sees nothing of others", engineer, "", []string{"get", "jobs", "-n", "default"}, true, "forbidden"},
		{"the engineer pauses it", engineer, "", []string{"pause", "train"}, false, ""},
		{"and goes on", engineer, "", []string{"resume", "train"}, false, ""},
		{"and deletes it", engineer, "", []string{"delete", "train", "--yes"}, false, ""},
	}
	for _, tc := range tests {
		code, stdout, stderr := as(t, tc.kubeconfig, tc.stdin, tc.args...)
		if (code != 0) != tc.fails || !strings.Contains(stdout+stderr, tc.says) {
			t.Errorf("%s: exit code %d, want a failure %v with %q\n%s%s", tc.name, code, tc.fails, tc.says, stdout, stderr)
		}
	}
}

func pod(t *testing.T, name string, gpus int64, dryRun ...string) (*corev1.Pod, error) {
	t.Helper()
	object := fixture.Pod(name).GPUs(gpus).Obj()
	object.Namespace = team
	return cluster.Client.CoreV1().Pods(team).Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
}

// TestLimitsGiveNobodyGPUs who asks for none, and refuse more than two of a container.
func TestLimitsGiveNobodyGPUs(t *testing.T) {
	plain, err := pod(t, "plain", 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]; !got.IsZero() {
		t.Errorf("a container that asks for no GPU gets %s", got.String())
	}
	if _, err := pod(t, "three", 3); err == nil || !strings.Contains(err.Error(), "maximum nvidia.com/gpu usage per Container is 2") {
		t.Errorf("a container of three GPUs: %v", err)
	}
	remove(t, "plain")
}

// TestTheQuotaCountsGPUs by the key of the example, and not by the one without "requests.".
func TestTheQuotaCountsGPUs(t *testing.T) {
	awaitQuota(t, team, "gpu-quota-ml-team")
	for _, name := range []string{"a", "b"} {
		if _, err := pod(t, name, 2); err != nil {
			t.Fatal(err)
		}
	}
	awaitRefusal(t, "c", 1, "exceeded quota: gpu-quota-ml-team")
	_, stdout, stderr := as(t, user(t, "ml-engineer"), job("fifth", 1), "create", "-f", "-")
	if !strings.Contains(stdout+stderr, "quota") {
		t.Errorf("gpuctl says nothing of the quota: %s%s", stdout, stderr)
	}
	remove(t, "a", "b")
}

// TestAQuotaWithoutRequestsCountsNothing is why the key is what it is.
func TestAQuotaWithoutRequestsCountsNothing(t *testing.T) {
	text := "{apiVersion: v1, kind: ResourceQuota, metadata: {name: wrong, namespace: default}, spec: {hard: {nvidia.com/gpu: 1}}}"
	file := filepath.Join(t.TempDir(), "quota.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.RunKubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatalf("the API server refuses the key, so manifests/tenancy/quota.yaml says what is not so: %v", err)
	}
	awaitQuota(t, "default", "wrong")
	if _, err := cluster.Client.CoreV1().Pods("default").Create(t.Context(), fixture.Pod("free").GPUs(2).Obj(), metav1.CreateOptions{}); err != nil {
		t.Errorf("nvidia.com/gpu bounds GPUs after all: %v", err)
	}
}

// awaitQuota waits until a quota counts: before that it refuses nothing.
func awaitQuota(t *testing.T, namespace, name string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		quota, err := cluster.Client.CoreV1().ResourceQuotas(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && len(quota.Status.Hard) > 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("quota %s/%s counts nothing: %v", namespace, name, err)
		}
	}
}

// awaitRefusal waits until a pod of so many GPUs is refused: admission learns of a quota, and the quota controller of pods, by watches that
// may be late, and until then what is charged can be too low.
func awaitRefusal(t *testing.T, name string, gpus int64, want string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		_, err := pod(t, name, gpus, metav1.DryRunAll)
		if err != nil && strings.Contains(err.Error(), want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("a pod of %d GPUs more: %v, want %q", gpus, err, want)
		}
	}
}

func remove(t *testing.T, pods ...string) {
	t.Helper()
	zero := int64(0)
	for _, name := range pods {
		if err := cluster.Client.CoreV1().Pods(team).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
			t.Error(err)
		}
	}
}

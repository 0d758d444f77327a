package queue

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

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// TestStartsSaysWhenAQuotaHasRoom: of a job that a GPUQuota keeps waiting, while half of its node is free, by the time limit of the job that
// uses the quota up; and it starts when that one is gone.
func TestStartsSaysWhenAQuotaHasRoom(t *testing.T) {
	e := newEnv(t)
	e.createNode(eight(func(*corev1.Node) {})(e.node("n")))
	file := filepath.Join(t.TempDir(), "quota.yaml")
	quota := fmt.Sprintf("apiVersion: g8s.host/v1alpha1\nkind: GPUQuota\nmetadata: {name: %[1]s}\nspec: {namespaces: [%[1]s], pool: %[2]s, max: 4}\n", e.namespace, e.pool)
	if err := os.WriteFile(file, []byte(quota), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := cluster.RunKubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	defer func() { _, _ = cluster.RunKubectl(context.Background(), "delete", "gpuquota", e.namespace) }()
	const limit = 2 * time.Hour
	limited := strings.Replace(e.job("first", 4, 1), "cpu: 1,", "cpu: 1, time-limit: 2h,", 1)
	e.expect(0, "", limited, "create", "-f", "-")
	e.placed("first")
	e.expect(0, "", e.job("second", 4, 1), "create", "-f", "-")
	e.tried("second")
	entry := e.entry("second")
	if entry == nil || entry.Cause != reason.GPUQuotaReached || entry.ETA == nil || !strings.Contains(entry.Message, "4 of 4 GPUs") {
		t.Fatalf("the queue says %+v", entry)
	}
	if in := time.Until(*entry.ETA); in > limit || in < limit-10*time.Minute {
		t.Errorf("it starts in %s, want what is left of %s", in, limit)
	}
	if got := e.starts("second"); !strings.HasPrefix(got, "in 1") && !strings.HasPrefix(got, "in 2h") {
		t.Errorf("STARTS is %q", got)
	}
	if said := strings.Join(strings.Fields(e.expect(0, "", "", "why", "second")), " "); !strings.Contains(said, "others leave enough of its quota, and it starts, by ") {
		t.Errorf("why says %s", said)
	}
	for _, gone := range [][]string{{"job", "first", "--wait=false"}, {"pods", "-l", names.LabelJob + "=first", "--force", "--grace-period=0"}} { // no kubelet ends pods
		if out, err := cluster.RunKubectl(t.Context(), append([]string{"-n", e.namespace, "delete"}, gone...)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	e.placed("second")
}

// placed waits until a pod of a job has a node.
func (e *env) placed(job string) {
	e.Helper()
	e.eventually(job+" to be placed", func(ctx context.Context) bool {
		list, err := client.CoreV1().Pods(e.namespace).List(ctx, metav1.ListOptions{LabelSelector: names.LabelJob + "=" + job})
		return err == nil && len(list.Items) > 0 && list.Items[0].Spec.NodeName != ""
	})
}

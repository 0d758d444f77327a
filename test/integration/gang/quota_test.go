package gang

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// lenderStarts is how soon docs/quotas.md says that a job starts which is guaranteed its GPUs, where others borrow them.
const lenderStarts = 30 * time.Second

// share gives the namespace of a test a GPUQuota, until the test ends.
func (e *env) share(pool string, least, most int) {
	e.Helper()
	file := filepath.Join(e.TempDir(), "quota.yaml")
	quota := fmt.Sprintf("apiVersion: g8s.host/v1alpha1\nkind: GPUQuota\nmetadata: {name: %[1]s}\nspec: {namespaces: [%[1]s], pool: %[2]s, min: %[3]d, max: %[4]d}\n",
		e.Namespace, pool, least, most)
	if err := os.WriteFile(file, []byte(quota), 0o600); err != nil {
		e.Fatal(err)
	}
	e.Kubectl("apply", "-f", file)
	e.Cleanup(func() {
		if _, err := cluster.RunKubectl(context.Background(), "delete", "gpuquota", e.Namespace, "--ignore-not-found"); err != nil {
			e.Error(err)
		}
	})
}

// toldOf waits until the scheduler says something of a pod of a job.
func (e *env) toldOf(job, what string) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%s to be told %q", job, what), func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.members(job), func(pod corev1.Pod) bool { return strings.Contains(verdictOn(&pod), what) }), nil
	})
}

func verdictOn(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Message
		}
	}
	return ""
}

// startsSoon fails where a job takes longer to start than the docs say.
func (e *env) startsSoon(job clustertest.Job, pods int) {
	e.Helper()
	began := time.Now()
	e.Submit(job)
	e.Running(job.Name, pods)
	took := time.Since(began)
	e.Logf("%s runs after %s", job.Name, took)
	if limit := bounds.Of(lenderStarts); took > limit {
		e.Errorf("%s runs after %s, want %s at most", job.Name, took, limit)
	}
}

// TestBorrowedGPUsGoBack to whom they are guaranteed, who need no higher priority for it, and to the borrower again in the end.
func TestBorrowedGPUsGoBack(t *testing.T) {
	lender, borrower := newEnv(t), newEnv(t)
	lender.share(names.DefaultPool, 8, 16)
	borrower.share(names.DefaultPool, 8, 16)
	borrower.Submit(clustertest.Job{Name: "guaranteed", Priority: "medium", Pool: names.DefaultPool, GPUs: 8})
	first := borrower.Running("guaranteed", 1)[0].CreationTimestamp
	borrower.Eventually("the next second, as pods are as old as each other within one", func(context.Context) (bool, error) {
		return time.Now().Unix() > first.Unix(), nil
	})
	borrower.Submit(clustertest.Job{Name: "borrowed", Priority: "medium", Pool: names.DefaultPool, GPUs: 8})
	borrower.Running("borrowed", 1)
	borrower.Submit(clustertest.Job{Name: "more", Priority: "medium", Pool: names.DefaultPool, GPUs: 8})
	borrower.toldOf("more", reason.QuotaUsed.Text.FormatText("16 of 16", borrower.Namespace, 8))

	lender.startsSoon(clustertest.Job{Name: "mine", Priority: "medium", Pool: names.DefaultPool, GPUs: 8}, 1)
	if left := borrower.History.Running("guaranteed"); len(left) != 1 {
		t.Errorf("%d pods of the job within the min run, want 1", len(left))
	}
	if left := borrower.History.Running("borrowed"); len(left) != 0 {
		t.Errorf("%d pods of the job that borrowed run, want none", len(left))
	}

	// Who is guaranteed no more than runs takes nothing from the other.
	lender.Submit(clustertest.Job{Name: "beyond", Priority: "medium", Pool: names.DefaultPool, GPUs: 8})
	lender.toldOf("beyond", "node(s)")
	lender.Kubectl("delete", "job", "-n", lender.Namespace, "beyond", "mine")
	borrower.Kubectl("delete", "job", "-n", borrower.Namespace, "more")
	borrower.Running("borrowed", 1)
}

// TestAGangGetsItsGPUsBack: as many gangs of the borrower leave as it takes, each whole.
func TestAGangGetsItsGPUsBack(t *testing.T) {
	lender, borrower := newEnv(t), newEnv(t)
	lender.share(rackedPool, 16, 48)
	borrower.share(rackedPool, 0, 48)
	for _, job := range []string{"a", "b", "c"} {
		borrower.Submit(clustertest.Job{Name: job, Priority: "medium", Pool: rackedPool, Nodes: 2, GPUs: 8})
		borrower.Running(job, 2)
	}
	lender.startsSoon(clustertest.Job{Name: "mine", Priority: "low", Pool: rackedPool, Nodes: 2, GPUs: 8}, 2)
	borrower.Eventually("one of three gangs to have left, whole", func(context.Context) (bool, error) {
		whole, parts := 0, 0
		for _, job := range []string{"a", "b", "c"} {
			switch len(borrower.History.Running(job)) {
			case 2:
				whole++
			case 1:
				parts++
			}
		}
		return whole == 2 && parts == 0, nil
	})
	for _, pod := range lender.members("mine") {
		if pod.Spec.NodeName == "" {
			t.Errorf("%s is on no node", pod.Name)
		}
	}
}

// TestAGangIsKeptWithinItsQuota as a whole: it begins when another job has ended.
func TestAGangIsKeptWithinItsQuota(t *testing.T) {
	e := newEnv(t)
	e.share(rackedPool, 0, 24)
	e.Submit(clustertest.Job{Name: "one", Priority: "medium", Pool: rackedPool, Nodes: 2, GPUs: 8})
	e.Running("one", 2)
	e.Submit(clustertest.Job{Name: "two", Priority: "medium", Pool: rackedPool, Nodes: 2, GPUs: 8})
	e.toldOf("two", reason.QuotaUsed.Text.FormatText("16 of 24", e.Namespace, 16))
	e.Submit(clustertest.Job{Name: "never", Priority: "medium", Pool: rackedPool, Nodes: 4, GPUs: 8})
	e.toldOf("never", reason.QuotaTooSmall.Text.FormatText(e.Namespace, 24, 32))
	e.Kubectl("delete", "job", "-n", e.Namespace, "one")
	e.Running("two", 2)
	e.share(rackedPool, 0, 48)
	e.Running("never", 4)
}

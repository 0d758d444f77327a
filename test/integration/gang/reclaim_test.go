package gang

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// borrows fills both nodes with jobs that borrow, and take their time to stop.
func (e *env) borrows(stopAfter string) (pods []*corev1.Pod) {
	e.Helper()
	for _, name := range []string{"first", "second"} {
		pods = append(pods, e.Start(clustertest.Job{Name: name, Pool: names.DefaultPool, GPUs: 8, Pod: map[string]string{sandbox.AnnotationStopAfter: stopAfter}})[0])
	}
	return pods
}

// leaves waits until so many of some pods have gone, or are about to.
func (e *env) leaves(count int, pods []*corev1.Pod) {
	e.Helper()
	e.Eventually(fmt.Sprintf("%d of %d borrowers to leave", count, len(pods)), func(context.Context) (bool, error) {
		return len(pods)-len(e.same(pods...)) == count, nil
	})
}

// mine is a job that is guaranteed its GPUs.
func mine(name string) clustertest.Job {
	return clustertest.Job{Name: name, Priority: "low", Pool: names.DefaultPool, GPUs: 8}
}

// TestTheNextLeaderGoesOnWithAReclaim: nobody else leaves for it.
func TestTheNextLeaderGoesOnWithAReclaim(t *testing.T) {
	lender, borrower := newEnv(t), newEnv(t)
	lender.share(names.DefaultPool, 8, 16)
	pods := borrower.borrows("8s")
	lender.Submit(mine("mine"))
	borrower.leaves(1, pods)
	lender.nextLeader()
	lender.Running("mine", 1)
	borrower.leaves(1, pods)
}

// TestTwoLendersReclaimAtOnce: each gets the GPUs of another borrower.
func TestTwoLendersReclaimAtOnce(t *testing.T) {
	one, other, borrower := newEnv(t), newEnv(t), newEnv(t)
	one.share(names.DefaultPool, 8, 8)
	other.share(names.DefaultPool, 8, 8)
	pods := borrower.borrows("2s")
	one.Submit(mine("mine"))
	other.Submit(mine("mine"))
	one.Running("mine", 1)
	other.Running("mine", 1)
	borrower.leaves(2, pods)
}

// TestAQuotaIsDeletedWhileItIsReclaimed: the one that leaves already has left for the job, and nobody else does.
func TestAQuotaIsDeletedWhileItIsReclaimed(t *testing.T) {
	lender, borrower := newEnv(t), newEnv(t)
	lender.share(names.DefaultPool, 8, 16)
	pods := borrower.borrows("8s")
	lender.Submit(mine("mine"))
	borrower.leaves(1, pods)
	lender.Kubectl("delete", "gpuquota", lender.Namespace)
	lender.Submit(mine("more"))
	lender.Running("mine", 1)
	lender.toldOf("more", "node(s)")
	borrower.leaves(1, pods)
}

// TestABudgetKeepsABorrower: the other one leaves, and who has none to leave for it is told why.
func TestABudgetKeepsABorrower(t *testing.T) {
	lender, borrower := newEnv(t), newEnv(t)
	lender.share(names.DefaultPool, 16, 16)
	pods := borrower.borrows("0s")
	file := filepath.Join(t.TempDir(), "budget.yaml")
	budget := fmt.Sprintf("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: keep, namespace: %s}\nspec: {minAvailable: 1, selector: {matchLabels: {%s: first}}}\n",
		borrower.Namespace, names.LabelJob)
	if err := os.WriteFile(file, []byte(budget), 0o600); err != nil {
		t.Fatal(err)
	}
	lender.Kubectl("apply", "-f", file)
	lender.Eventually("the budget to have been counted", func(context.Context) (bool, error) {
		text, err := cluster.RunKubectl(t.Context(), "get", "pdb", "-n", borrower.Namespace, "keep", "-o", "jsonpath={.status.expectedPods}")
		return string(text) == "1", err
	})
	lender.Submit(mine("mine"))
	lender.Running("mine", 1)
	lender.Submit(mine("more"))
	lender.toldOf("more", string(reason.QuotaBudgeted.Text))
	if there := borrower.same(pods[0]); len(there) != 1 {
		t.Error("the one that a budget keeps has left")
	}
	lender.Kubectl("delete", "pdb", "-n", borrower.Namespace, "keep")
}

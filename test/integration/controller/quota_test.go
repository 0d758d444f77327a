package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// quota guarantees a namespace GPUs of the test's pool, and returns what its status says.
func (e *env) quota(name, namespace string, least int) (status func() names.GPUQuotaStatus) {
	e.Helper()
	file := filepath.Join(e.TempDir(), name+".yaml")
	text := fmt.Sprintf("apiVersion: g8s.host/v1alpha1\nkind: GPUQuota\nmetadata: {name: %s}\nspec: {namespaces: [%s], pool: %s, min: %d}\n", name, namespace, e.Pool, least)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	e.Kubectl("apply", "--server-side", "-f", file)
	e.Cleanup(func() {
		_, _ = cluster.RunKubectl(context.Background(), "delete", "gpuquota", name, "--ignore-not-found")
	})
	return func() names.GPUQuotaStatus {
		var read names.GPUQuota
		if err := json.Unmarshal([]byte(e.Kubectl("get", "gpuquota", name, "-o", "json")), &read); err != nil {
			e.Fatal(err)
		}
		return read.Status
	}
}

// TestAGPUQuotaSaysWhatBecameOfIt: what its namespaces hold, what others borrow of it, and whether there is as much as it guarantees.
func TestAGPUQuotaSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	lender := e.quota(e.Pool+"-lender", e.Pool+"-nobody", 1000)
	own := e.quota(e.Pool+"-own", e.Namespace, 1)
	e.Start(clustertest.Job{Name: "sft", GPUs: 1})
	e.Start(clustertest.Job{Name: "more", GPUs: 1})
	shows := func(what string, status func() names.GPUQuotaStatus, is func(names.GPUQuotaStatus) bool) {
		e.Eventually(what, func(context.Context) (bool, error) { return is(status()), nil })
	}
	shows("the own quota to show two GPUs, one of them borrowed", own, func(s names.GPUQuotaStatus) bool { return s.Used == 2 && s.Borrowed == 1 })
	shows("the lender to lend one, and to guarantee more than there is", lender, func(s names.GPUQuotaStatus) bool {
		return s.Lent == 1 && s.ObservedGeneration == 1 && len(s.Borrowers) == 0 && meta.IsStatusConditionTrue(s.Conditions, names.ConditionOvercommitted) &&
			meta.IsStatusConditionTrue(s.Conditions, names.ConditionMinNotBacked)
	})
	e.Kubectl("patch", "gpuquota", e.Pool+"-lender", "--type=merge", "-p", `{"spec": {"min": 1}}`)
	shows("the lender to guarantee what there is", lender, func(s names.GPUQuotaStatus) bool {
		return s.ObservedGeneration == 2 && !slices.ContainsFunc(s.Conditions, func(c metav1.Condition) bool { return c.Status == "True" })
	})
	e.Kubectl("delete", "job", "-n", e.Namespace, "sft", "more")
	shows("nothing to be in use", own, func(s names.GPUQuotaStatus) bool { return s.Used == 0 && s.Borrowed == 0 })
	shows("nothing to be lent", lender, func(s names.GPUQuotaStatus) bool { return s.Lent == 0 && s.Free == 1 })
}

package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// statusSoon is how long after a change the status of a pool may be out of date.
const statusSoon = 5 * time.Second

// pool applies a GPUPool for the pool of the test, and returns what the API server said.
func (e *env) applyPool(spec string) error {
	e.Helper()
	file := filepath.Join(e.TempDir(), "pool.yaml")
	text := fmt.Sprintf("apiVersion: g8s.host/v1alpha1\nkind: GPUPool\nmetadata: {name: %s}\nspec: %s\n", e.Pool, spec)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	_, err := cluster.RunKubectl(e.Context(), "apply", "--server-side", "-f", file)
	return err
}

// poolStatus is what the GPUPool says.
func (e *env) poolStatus() names.GPUPoolStatus {
	e.Helper()
	var pool names.GPUPool
	if err := json.Unmarshal([]byte(e.Kubectl("get", "gpupool", e.Pool, "-o", "json")), &pool); err != nil {
		e.Fatal(err)
	}
	return pool.Status
}

// poolShows waits until the status of the pool is as it must be, which may take some seconds.
func (e *env) poolShows(what string, is func(names.GPUPoolStatus) bool) {
	e.Helper()
	began := time.Now()
	e.Eventually("the pool to show "+what, func(context.Context) (bool, error) { return is(e.poolStatus()), nil })
	if took := time.Since(began); took > bounds.Of(statusSoon) {
		e.Errorf("it took %s until the pool showed %s, want %s", took, what, statusSoon)
	}
}

// TestAPoolTellsHowItIs follows the status of a pool through what happens in it.
func TestAPoolTellsHowItIs(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	if err := e.applyPool("{constraints: {minHealthyNodes: 5}}"); err != nil {
		t.Fatal(err)
	}
	const total = nodesPerPool * 8
	e.poolShows("its nodes", func(s names.GPUPoolStatus) bool {
		return s.Nodes == nodesPerPool && s.HealthyNodes == nodesPerPool && s.GPUs == names.GPUCounts{Total: total, Free: total} &&
			meta.IsStatusConditionTrue(s.Conditions, names.ConditionAvailable)
	})
	e.Start(clustertest.Job{Name: "sft", GPUs: 6})
	e.poolShows("what a job holds", func(s names.GPUPoolStatus) bool {
		return s.GPUs == names.GPUCounts{Total: total, Allocated: 6, Free: total - 6} && s.FreeSets[0] == names.FreeSet{Size: 8, Count: 4}
	})
	e.Submit(clustertest.Job{Name: "big", GPUs: 8, Nodes: 5})
	e.poolShows("what waits", func(s names.GPUPoolStatus) bool {
		return s.Pending.Jobs == 1 && s.Pending.GPUs == 40 && s.Pending.Since != nil
	})
	e.Kubectl("cordon", e.Nodes[4])
	e.poolShows("that a node is closed", func(s names.GPUPoolStatus) bool {
		return s.HealthyNodes == 4 && meta.IsStatusConditionFalse(s.Conditions, names.ConditionAvailable)
	})
	e.Kubectl("delete", "job", "-n", e.Namespace, "sft", "big")
	e.Kubectl("uncordon", e.Nodes[4])
	e.poolShows("that all is free", func(s names.GPUPoolStatus) bool {
		return s.GPUs.Free == total && s.Pending.Jobs == 0 && meta.IsStatusConditionTrue(s.Conditions, names.ConditionAvailable)
	})
}

// TestANodeThatBreaksAConstraintGetsNoPods has the constraints of a pool come, be broken and go.
func TestANodeThatBreaksAConstraintGetsNoPods(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "before", GPUs: 8})[0]
	kept := func(node string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			read, err := cluster.Client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			return err == nil && tainted(read, names.TaintNotAdmitted), err
		}
	}
	open := func(node string) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) { is, err := kept(node)(ctx); return !is, err }
	}
	e.Kubectl("label", "node", e.Nodes[0], "--overwrite", "g8s.host/gpu-type=T4")
	if err := e.applyPool("{constraints: {gpuTypes: [A100-80G], minNode: {gpus: 8, cpu: 64, memory: 512Gi}}}"); err != nil {
		t.Fatal(err)
	}
	e.Within(bounds.Of(statusSoon), "the node to be kept out", kept(e.Nodes[0]))
	e.told("default", e.Nodes[0], "NodeNotAdmitted", "its gpu-type is T4, and must be one of A100-80G")
	e.poolShows("which node breaks what", func(s names.GPUPoolStatus) bool {
		condition := meta.FindStatusCondition(s.Conditions, names.ConditionNodesAdmitted)
		return condition != nil && condition.Status == metav1.ConditionFalse && strings.Contains(condition.Message, e.Nodes[0]) && s.HealthyNodes == nodesPerPool-1
	})
	for _, node := range e.Nodes[1:] {
		if is, err := kept(node)(t.Context()); err != nil || is {
			t.Errorf("node %s is kept out, too: %v", node, err)
		}
	}
	if seen := e.History.Of(pod.UID); !seen.Ended.IsZero() {
		t.Error("the pod that ran there was ended")
	}
	e.Kubectl("label", "node", e.Nodes[0], "--overwrite", "g8s.host/gpu-type=A100-80G")
	e.Within(bounds.Of(statusSoon), "the node to be let in", open(e.Nodes[0]))
	e.Kubectl("label", "node", e.Nodes[0], "--overwrite", "g8s.host/gpu-type=T4")
	e.Within(bounds.Of(statusSoon), "the node to be kept out", kept(e.Nodes[0]))
	e.Kubectl("delete", "gpupool", e.Pool)
	e.Within(bounds.Of(statusSoon), "the node to be let in when nobody asks anything", open(e.Nodes[0]))
}

// TestWhatAPoolMayAsk: the API server refuses what nobody can mean.
func TestWhatAPoolMayAsk(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	tests := map[string]struct{ spec, want string }{
		"fewer than no nodes":       {"{constraints: {minHealthyNodes: -1}}", "greater than or equal to 0"},
		"more zones than it has":    {"{constraints: {zones: [a, b], minZones: 3}}", "minZones is more than there are zones"},
		"an empty type":             {`{constraints: {gpuTypes: [""]}}`, "gpuTypes[0]"},
		"a type twice":              {"{constraints: {gpuTypes: [T4, T4]}}", "duplicate"},
		"memory that is no amount":  {"{constraints: {minNode: {memory: lots}}}", "memory"},
		"a field that is not there": {"{constraint: {}}", "field not declared in schema"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if err := e.applyPool(tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
	if err := e.applyPool("{description: all that may be, constraints: {zones: [a, b], minZones: 2, minNode: {gpuMemory: 80Gi}}}"); err != nil {
		t.Error(err)
	}
}

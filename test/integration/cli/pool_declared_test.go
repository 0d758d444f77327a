package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/rights"
)

const gpuPools = "/apis/g8s.host/v1alpha1/gpupools"

// withGPUPools has the cluster know GPUPools for one test. All others run without, which is how labels alone are tested.
func withGPUPools(t *testing.T) {
	t.Helper()
	withKind(t, "gpupools")
}

// withKind has the cluster know a kind of ours for one test.
func withKind(t *testing.T, plural string) {
	t.Helper()
	options := envtest.CRDInstallOptions{Paths: []string{"../../../manifests/crds/g8s.host_" + plural + ".yaml"}, ErrorIfPathMissing: true}
	if _, err := envtest.InstallCRDs(admin, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(admin, options); err != nil {
			t.Error(err)
		}
		err := wait.PollUntilContextTimeout(background, 100*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
			return client.CoreV1().RESTClient().Get().AbsPath("/apis/g8s.host/v1alpha1/"+plural).Do(ctx).Error() != nil, nil
		})
		if err != nil {
			t.Errorf("the cluster still knows %s: %v", plural, err)
		}
	})
}

// declared is what the GPUPool of a name says, nil where there is none.
func (s *session) declared(name string) *names.GPUPoolSpec {
	s.Helper()
	body, err := client.CoreV1().RESTClient().Get().AbsPath(gpuPools, name).Do(s.Context()).Raw()
	if err != nil {
		return nil
	}
	var out names.GPUPool
	if err := json.Unmarshal(body, &out); err != nil {
		s.Fatal(err)
	}
	return &out.Spec
}

// typed makes a node with 8 GPUs.
func (s *session) typed(name, gpuType string) {
	s.Helper()
	s.node(name, map[string]string{names.LabelGPUType: gpuType})
	status := `{"status":{"allocatable":{"nvidia.com/gpu":"8","cpu":"64","memory":"512Gi"},"capacity":{"nvidia.com/gpu":"8","cpu":"64","memory":"512Gi"}}}`
	if _, err := client.CoreV1().Nodes().Patch(s.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status"); err != nil {
		s.Fatal(err)
	}
}

// declaredPool is the YAML of a pool of some nodes with constraints.
func declaredPool(name, constraints string, nodes ...string) string {
	out := fmt.Sprintf("kind: pool\nmetadata: {name: %s, description: large machines}\nnodes: [%s]\n", name, strings.Join(nodes, ", "))
	if constraints != "" {
		out += "constraints: " + constraints + "\n"
	}
	return out
}

// TestAPoolRefusesNodesThatBreakItsConstraints, whichever command brings them, and changes nothing then.
func TestAPoolRefusesNodesThatBreakItsConstraints(t *testing.T) {
	withGPUPools(t)
	s := newSession(t)
	good, bad, pool := s.namespace+"-good", s.namespace+"-bad", s.namespace
	s.typed(good, "A100-80G")
	s.typed(bad, "T4-16G")
	const asks = "{gpu-type: A100-80G, min-node: {gpu: 8}}"
	const why = "-bad: its gpu-type is T4-16G, and must be one of A100-80G"

	if got := s.expect(4, why, declaredPool(pool, asks, good, bad), "create", "-f", "-"); strings.Contains(got.stderr, "describe pool") {
		t.Errorf("it names a pool that was not made:\n%s", got.stderr)
	}
	if s.label(good, names.LabelPool) != "" || s.declared(pool) != nil {
		t.Error("a pool that was refused is there in part")
	}
	s.expect(0, "", declaredPool(pool, asks, good), "create", "-f", "-")
	if got := s.declared(pool); got == nil || got.Description != "large machines" || len(got.Constraints.GPUTypes) != 1 {
		t.Fatalf("the GPUPool says %+v", got)
	}
	for _, args := range [][]string{
		{"add", "node", bad, "--pool", pool, "-y"}, {"add", "node", bad, "--pool", pool, "--force", "-y"}, {"add", "node", bad, "--pool", pool, "--dry-run=server", "-y"},
	} {
		s.expect(4, why, "", args...)
	}
	s.expect(4, why, declaredPool(pool, "", good, bad), "create", "-f", "-", "--force")
	s.expect(4, why, declaredPool(pool, asks, good, bad), "apply", "-f", "-")
	s.expect(4, "its gpu-type is T4-16G", fmt.Sprintf("kind: pool\nmetadata: {name: %s}\nnodes: {%s: {gpu-type: T4-16G}}\n", pool, good), "create", "-f", "-", "--force", "--overwrite")
	if s.label(bad, names.LabelPool) != "" {
		t.Error("the node is in the pool that refused it")
	}
	// Members that the file does not change are checked, too, and nothing is half done.
	s.expect(4, "-good: its gpu-type is A100-80G", declaredPool(pool, "{gpu-type: H100-80G}", good), "apply", "-f", "-")
	s.expect(4, "-good: it offers 8 GPUs", declaredPool(pool, "{min-node: {gpu: 16}}", good), "create", "-f", "-", "--force")
	if got := s.declared(pool); len(got.Constraints.GPUTypes) != 1 || got.Constraints.GPUTypes[0] != "A100-80G" {
		t.Errorf("after a refusal the pool asks %+v", got.Constraints)
	}
	// What the pool asks can be changed with the nodes that it is to take.
	s.expect(0, "pool "+pool+" takes 1 node: "+bad, declaredPool(pool, "{gpu-type: [A100-80G, T4-16G]}", good, bad), "apply", "-f", "-")
	s.expect(0, "pool "+pool+" would lose 1 node to pool default: "+good, declaredPool(pool, "{gpu-type: [A100-80G, T4-16G]}", bad), "apply", "-f", "-", "--dry-run=server")
	if got := s.declared(pool); s.label(bad, names.LabelPool) != pool || got.Constraints.MinNode.GPUs != nil {
		t.Errorf("the pool asks %+v, and the node is in pool %q", got, s.label(bad, names.LabelPool))
	}
}

// TestAGPUPoolLivesAsItsFileDoes: created, shown, changed, kept and deleted.
func TestAGPUPoolLivesAsItsFileDoes(t *testing.T) {
	withGPUPools(t)
	s := newSession(t)
	node, pool := s.namespace+"-1", s.namespace
	s.typed(node, "A100-80G")
	file := declaredPool(pool, "{min-node: {gpu: 8}, min-healthy-nodes: 1}", node)
	if got := s.gpuctl(file, "diff", "-f", "-"); got.code != 1 || !strings.Contains(got.stdout, "+    minHealthyNodes: 1") {
		t.Errorf("diff: %+v", got)
	}
	if s.declared(pool) != nil {
		t.Error("diff made a GPUPool")
	}
	s.expect(0, "", file, "apply", "-f", "-")
	if got := s.gpuctl(file, "apply", "-f", "-"); !strings.Contains(got.stdout, "unchanged") {
		t.Errorf("applied again: %+v", got)
	}
	got := s.expect(0, "", "", "describe", "pool", pool)
	for _, want := range []string{"Description: large machines", "offer 8 GPUs or more", "Must have:   1 node"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("describe does not say %q:\n%s", want, got.stdout)
		}
	}
	withDefaults := file + "defaults: {idle-timeout: 90m}\n"
	s.expect(0, "", withDefaults, "apply", "-f", "-")
	if got := s.expect(0, "", "", "describe", "pool", pool); !strings.Contains(got.stdout, "Idle jobs:   are paused after 90m") {
		t.Errorf("describe does not say when jobs are paused:\n%s", got.stdout)
	}
	s.expect(2, "is too short", file+"defaults: {idle-timeout: 5m}\n", "apply", "-f", "-")
	err := client.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath("/apis/g8s.host/v1alpha1/gpupools", pool).
		Body([]byte(`{"spec":{"defaults":{"idleTimeout":"5m"}}}`)).Do(t.Context()).Error()
	if err == nil || !strings.Contains(err.Error(), "must be from 10m to 72h") {
		t.Errorf("a timeout of five minutes: %v", err)
	}
	s.expect(0, "", file, "apply", "-f", "-")
	// Another file of the pool, which says nothing of constraints, brings nodes in and leaves them as they are, if that is meant.
	s.expect(4, "already exists, with 1 node", declaredPool(pool, "", node), "create", "-f", "-")
	s.expect(0, "", declaredPool(pool, "", node), "create", "-f", "-", "--force")
	if spec := s.declared(pool); spec.Constraints.MinNode.GPUs == nil {
		t.Error("create took the constraints away")
	}
	if got := s.gpuctl(declaredPool(pool, "", node), "apply", "-f", "-"); got.code != 0 || !strings.Contains(got.stdout, "configured") {
		t.Errorf("applied without constraints: %+v", got)
	}
	if spec := s.declared(pool); spec == nil || spec.Constraints.MinNode.GPUs != nil {
		t.Error("apply left the constraints that its file no longer has")
	}
	s.expect(0, "", "", "remove", "node", node, "--pool", pool)
	if got := s.expect(0, "", "", "get", "pools", pool, "--no-headers"); !strings.Contains(got.stdout, "0/0") {
		t.Errorf("a GPUPool without nodes is shown as %q", got.stdout)
	}
	s.expect(0, "", "", "delete", "pool", pool)
	if s.declared(pool) != nil {
		t.Error("the GPUPool is there after the pool was deleted")
	}
	s.expect(3, "not found", "", "delete", "pool", pool)
}

// TestLabelsAloneMakeAPool: where the cluster knows no GPUPools, where the user may not write them, and where none can have
// the name.
func TestLabelsAloneMakeAPool(t *testing.T) {
	s := newSession(t)
	node, pool := s.namespace+"-1", s.namespace
	s.typed(node, "A100-80G")
	s.expect(1, "this cluster knows no GPUPools", declaredPool(pool, "{min-node: {gpu: 8}}", node), "create", "-f", "-")
	if s.label(node, names.LabelPool) != "" {
		t.Error("the node was labelled, though the constraints could not be written")
	}
	s.expect(0, "", declaredPool(pool, "", node), "create", "-f", "-")
	s.expect(0, "", "", "describe", "pool", pool)
	s.expect(0, "", "", "delete", "pool", pool)

	withGPUPools(t)
	s.expect(0, "", declaredPool("Upper_"+pool, "", node), "create", "-f", "-")
	s.expect(0, "", declaredPool("Upper_"+pool, "", node), "delete", "-f", "-")
	s.expect(2, "cannot be the name of a GPUPool", declaredPool("Upper_"+pool, "{min-node: {gpu: 8}}", node), "create", "-f", "-")

	user := newSession(t)
	user.kubeconfig = user.restrictedUser()
	user.grantNodes()
	user.expect(5, "", declaredPool(pool, "{min-node: {gpu: 8}}", node), "create", "-f", "-")
	user.expect(0, "", declaredPool(pool, "", node), "create", "-f", "-")
	if s.label(node, names.LabelPool) != pool || s.declared(pool) != nil {
		t.Error("who may not write GPUPools has not got a pool of labels alone")
	}
}

// TestAFailedPoolGivesItsGPUPoolBack: a node that cannot be labelled undoes the GPUPool.
func TestAFailedPoolGivesItsGPUPoolBack(t *testing.T) {
	withGPUPools(t)
	s := newSession(t)
	first, second, pool := s.namespace+"-1", s.namespace+"-2", s.namespace
	s.typed(first, "A100-80G")
	s.typed(second, "A100-80G")
	s.expect(0, "", declaredPool(pool, "{min-node: {gpu: 4}}", first), "create", "-f", "-")
	s.forbidChangesOf(second)
	if got := s.gpuctl(declaredPool(pool, "{min-node: {gpu: 8}}", first, second), "create", "-f", "-"); got.code == 0 {
		t.Fatal("a node that cannot be labelled was labelled")
	}
	if spec := s.declared(pool); spec == nil || *spec.Constraints.MinNode.GPUs != 4 {
		t.Errorf("the pool asks %+v, want what it asked before", spec)
	}
	if got := s.gpuctl(declaredPool(pool+"-new", "{min-node: {gpu: 8}}", second), "create", "-f", "-"); got.code == 0 {
		t.Fatal("a node that cannot be labelled was labelled")
	}
	if s.declared(pool+"-new") != nil {
		t.Error("a pool that could not be made left its GPUPool behind")
	}
}

// grantNodes lets the user change nodes, and see GPUPools not at all.
func (s *session) grantNodes() {
	s.Helper()
	name := s.namespace + "-nodes"
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{corev1.GroupName}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "patch"}},
	}}
	if _, err := client.RbacV1().ClusterRoles().Create(s.Context(), role, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: s.namespace}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if err := rights.Await(s.Context(), client, "", binding.RoleRef, binding.Subjects[0]); err != nil {
		s.Fatal(err)
	}
}

package agent

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/command"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestTheServiceOfTheMachine starts what the unit of hack/systemd starts, with kubelet's identity and its rights, which Kubernetes' authorizer of nodes
// gives: ClusterRole system:node is the same for all nodes.
func TestTheServiceOfTheMachine(t *testing.T) {
	const node = "served"
	if err := makeNode(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	patch := []byte(`{"metadata":{"labels":{"g8s.host/gpu-type":"A100-80G"}}}`)
	if _, err := admin.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	user := "system:node:" + node
	kubeconfig, err := cluster.UserKubeconfig("service", user, "system:nodes")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "service"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:node"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	rewrite(t, filepath.Join(dir, "cards.yaml"), "count: 2\n")
	args := append(serviceArgs(t), // of a flag the last one counts
		"--node-name="+node, "--kubeconfig="+kubeconfig, "--nvml=mock", "--mock-config="+filepath.Join(dir, "cards.yaml"), "--metrics-address=127.0.0.1:0",
		"--kubelet-dir="+filepath.Join(dir, "kubelet"), "--cdi-dir="+filepath.Join(dir, "cdi"), "--runtime-endpoint="+startRuntime(t, "2.2.7"),
		"--pod-resources-socket="+filepath.Join(dir, "kubelet.sock"))
	cmd := command.New()
	cmd.SetArgs(args)
	cmd.SetOut(io.Discard)
	cmd.SetErr(io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
	await(t, node, "the agent to serve", func(node *corev1.Node) bool {
		return node.Annotations[names.AnnotationInventory] != "" && condition(node, names.ConditionAgentReady).Reason == names.ReasonServing
	})
}

// serviceArgs returns the arguments of the unit's program.
func serviceArgs(t *testing.T) []string {
	t.Helper()
	unit, err := os.ReadFile("../../../hack/systemd/gpu-agent.service")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if start, is := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); is {
			return strings.Fields(start)[1:]
		}
	}
	t.Fatal("the unit starts nothing")
	return nil
}

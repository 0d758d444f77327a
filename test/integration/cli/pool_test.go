package cli

import (
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const poolYAML = `kind: pool
version: v0.1
metadata:
  name: POOL
nodes:
  NODE-1: {gpu-type: A100-80G}
  NODE-2: {gpu-type: A800-80G}
`

// pool returns the YAML of a pool of two nodes, whose names begin with the test's namespace.
func (s *session) pool(name string) string {
	return strings.NewReplacer("POOL", name, "NODE", s.namespace).Replace(poolYAML)
}

func TestPoolLifecycle(t *testing.T) {
	s := newSession(t)
	first, second := s.namespace+"-1", s.namespace+"-2"
	s.node(first, nil)
	s.expect(3, second, s.pool("train"), "create", "-f", "-")
	if got := s.label(first, names.LabelPool); got != "" {
		t.Errorf("%s is in pool %q, though the other node is missing", first, got)
	}
	s.node(second, map[string]string{names.LabelPool: "other"})
	s.expect(4, `"other"`, s.pool("train"), "create", "-f", "-")
	if got := s.label(first, names.LabelPool); got != "" {
		t.Errorf("%s is in pool %q, though the other node is taken", first, got)
	}
	s.expect(0, "", s.pool("train"), "create", "-f", "-", "--force")
	if got := s.label(second, names.LabelPool); got != "train" {
		t.Errorf("%s is in pool %q, want train", second, got)
	}
	if got := s.label(second, names.LabelGPUType); got != "A800-80G" {
		t.Errorf("%s has GPU type %q, want A800-80G", second, got)
	}
	if got := s.expect(0, "", "", "get", "pools", "-o", "name"); !strings.Contains(got.stdout, "pool/train\n") {
		t.Errorf("stdout is %q", got.stdout)
	}
	s.expect(4, "already exists, with 2 nodes", s.pool("train"), "create", "-f", "-")
	s.expect(0, "note: pool train loses 2 nodes to pool default: "+first+", "+second, s.pool("train"), "delete", "-f", "-")
	if got := s.label(first, names.LabelPool); got != "" {
		t.Errorf("%s is in pool %q, want none", first, got)
	}
	s.expect(3, "", s.pool("train"), "delete", "-f", "-")
}

// TestAGPUTypeIsNotChangedWithoutAWord: create asks for --overwrite, and apply says what it changes.
func TestAGPUTypeIsNotChangedWithoutAWord(t *testing.T) {
	s := newSession(t)
	first, second := s.namespace+"-1", s.namespace+"-2"
	s.node(first, map[string]string{names.LabelGPUType: "T4"})
	s.node(second, nil)
	refused := s.expect(4, "node "+first+" has g8s.host/gpu-type=T4", s.pool("typed"), "create", "-f", "-", "--force")
	if !strings.Contains(refused.stderr, "--overwrite") || s.label(first, names.LabelGPUType) != "T4" || s.label(second, names.LabelPool) != "" {
		t.Errorf("refused, %s has type %q, and %s is in pool %q: %s", first, s.label(first, names.LabelGPUType), second, s.label(second, names.LabelPool), refused.stderr)
	}
	const changed = " (A100-80G, was T4)"
	s.expect(0, "would change the GPU type of 1 node: "+first+changed, s.pool("typed"), "create", "-f", "-", "--overwrite", "--dry-run=server")
	s.expect(0, "note: pool typed changes the GPU type of 1 node: "+first+changed, s.pool("typed"), "create", "-f", "-", "--overwrite")
	s.expect(0, "changes the GPU type of 1 node: "+first+" (L40S, was A100-80G)", strings.Replace(s.pool("typed"), "A100-80G", "L40S", 1), "apply", "-f", "-")
	if got := s.label(first, names.LabelGPUType); got != "L40S" {
		t.Errorf("%s has GPU type %q, want L40S", first, got)
	}
	again := s.expect(0, "", strings.Replace(s.pool("typed"), "A100-80G", "L40S", 1), "apply", "-f", "-")
	if strings.Contains(again.stderr, "GPU type") {
		t.Errorf("nothing changes, and it says %s", again.stderr)
	}
}

func TestAPoolInUseIsNotDeleted(t *testing.T) {
	s := newSession(t)
	s.node(s.namespace+"-1", map[string]string{names.LabelPool: "busy"})
	s.expect(0, "", training("sft")+"  pool: busy\n", "create", "-f", "-")
	s.expect(4, s.namespace+"/sft", "", "delete", "pool", "busy")
	s.expect(0, "", "", "delete", "pool", "busy", "--force")
}

func TestAPoolIsTakenBackWhenANodeIsRefused(t *testing.T) {
	s := newSession(t)
	first, second := s.namespace+"-1", s.namespace+"-2"
	s.node(first, map[string]string{names.LabelGPUType: "old"})
	s.node(second, nil)
	s.forbidChangesOf(second)
	s.expect(2, "got back what they had", s.pool("train"), "create", "-f", "-", "--overwrite")
	if got := s.label(first, names.LabelPool); got != "" {
		t.Errorf("%s is in pool %q, want none", first, got)
	}
	if got := s.label(first, names.LabelGPUType); got != "old" {
		t.Errorf("%s has GPU type %q, want the one it had", first, got)
	}
}

// forbidChangesOf makes the API server refuse to change one node, whoever asks.
func (s *session) forbidChangesOf(node string) {
	s.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
				},
			}}},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != '" + node + "'"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: s.namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	policies := client.AdmissionregistrationV1()
	if _, err := policies.ValidatingAdmissionPolicies().Create(s.Context(), policy, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	if _, err := policies.ValidatingAdmissionPolicyBindings().Create(s.Context(), binding, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = policies.ValidatingAdmissionPolicyBindings().Delete(background, s.namespace, metav1.DeleteOptions{})
		_ = policies.ValidatingAdmissionPolicies().Delete(background, s.namespace, metav1.DeleteOptions{})
	})
	s.untilRefused(node)
}

// untilRefused waits for the policy to take effect, which takes the API server a moment.
func (s *session) untilRefused(node string) {
	s.Helper()
	probe := []byte(`{"metadata":{"annotations":{"probe":"1"}}}`)
	for range 100 {
		_, err := client.CoreV1().Nodes().Patch(s.Context(), node, types.MergePatchType, probe, metav1.PatchOptions{
			DryRun: []string{metav1.DryRunAll},
		})
		if err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.Fatal("the admission policy took no effect in 10 seconds")
}

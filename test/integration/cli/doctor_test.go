package cli

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/doctor"
	"g8s.host/gpu-scheduler/test/fixture"
)

// doctor returns the checks by name.
func (s *session) doctor() map[string]doctor.Check {
	s.Helper()
	got := s.gpuctl("", "doctor", "-o", "json") // its exit code is of the whole cluster, which has no scheduler here
	var list struct {
		Items []doctor.Check `json:"items"`
	}
	if err := json.Unmarshal([]byte(got.stdout), &list); err != nil {
		s.Fatalf("%v\n%s", err, got.stderr)
	}
	out := map[string]doctor.Check{}
	for _, check := range list.Items {
		out[check.Name] = check
	}
	return out
}

// change edits a node, and its status.
func (s *session) changeNode(name string, change func(*corev1.Node)) {
	s.Helper()
	node, err := client.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	change(node)
	status := node.Status
	if node, err = client.CoreV1().Nodes().Update(s.Context(), node, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	node.Status = status
	if _, err := client.CoreV1().Nodes().UpdateStatus(s.Context(), node, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// TestDoctorSeesTheFleet breaks one thing after the other.
func TestDoctorSeesTheFleet(t *testing.T) {
	s := newSession(t)
	s.gpuNode("doc-1", "doc-pool")
	s.gpuNode("doc-2", "doc-other")
	healthy := s.doctor()
	for _, name := range []string{"nodes", "pools", "GPU health", "GPU inventories", "labels of nodes"} {
		if healthy[name].Status != doctor.OK {
			t.Errorf("nothing is wrong, and of %s it says %+v", name, healthy[name])
		}
	}
	tests := map[string]struct {
		check string
		says  string
		spoil func(*corev1.Node)
	}{
		"a closed pool":       {"pools", "pool doc-pool: 1 of 1 nodes cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }},
		"a node that is down": {"nodes", "not ready: doc-1", func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }},
		"an unhealthy card": {"GPU health", "1 GPU is not healthy, which no job gets: doc-1", func(n *corev1.Node) {
			n.Annotations[names.AnnotationInventory] = fixture.Cards("doc-1", 1, 1).Unhealthy(1).Annotation(t)
		}},
		"a malformed inventory": {"GPU inventories", "doc-1: reading annotation", func(n *corev1.Node) { n.Annotations[names.AnnotationInventory] = "{}" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &session{T: t, namespace: s.namespace, kubeconfig: s.kubeconfig}
			before, err := client.CoreV1().Nodes().Get(t.Context(), "doc-1", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			s.changeNode("doc-1", tc.spoil)
			if got := s.doctor()[tc.check]; got.Status != doctor.Warning || !strings.Contains(got.Text.String(), tc.says) || len(got.Advice) == 0 {
				t.Errorf("%s: got %+v, want a warning with %q", tc.check, got, tc.says)
			}
			s.changeNode("doc-1", func(n *corev1.Node) {
				n.Spec.Unschedulable, n.Spec.Taints, n.Annotations, n.Status = false, nil, before.Annotations, before.Status
			})
		})
	}
}

// TestDoctorSeesTheNamespace deletes it; without controllers it stays on its way out.
func TestDoctorSeesTheNamespace(t *testing.T) {
	s := newSession(t)
	if err := client.CoreV1().Namespaces().Delete(t.Context(), s.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := s.doctor()["namespaces"]; got.Status != doctor.Failed || !strings.Contains(got.Text.String(), s.namespace+" is being deleted") {
		t.Errorf("got %+v", got)
	}
	s.namespace = "nowhere-at-all"
	if got := s.doctor()["namespaces"]; got.Status != doctor.Failed || !strings.Contains(got.Text.String(), "there is no namespace nowhere-at-all") {
		t.Errorf("got %+v", got)
	}
}

// TestDoctorTakesNoModelForAnother has two models that a letter tells apart, of which one is rare.
func TestDoctorTakesNoModelForAnother(t *testing.T) {
	s := newSession(t)
	s.node("model-a", map[string]string{names.LabelAccelerator: "nvidia-tesla-a100"})
	s.node("model-v1", map[string]string{names.LabelAccelerator: "nvidia-tesla-v100"})
	s.node("model-v2", map[string]string{names.LabelAccelerator: "nvidia-tesla-v100"})
	if got := s.doctor()["labels of nodes"]; got.Status != doctor.OK {
		t.Errorf("got %+v", got)
	}
}

package cli

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWhoMayHaveNoGPUsMayHaveNoSlices, of a profile that a node offers, unless the quota says so.
func TestWhoMayHaveNoGPUsMayHaveNoSlices(t *testing.T) {
	s := newSession(t)
	name, profile := s.namespace+"-sliced", corev1.ResourceName("nvidia.com/mig-7g.80gb")
	s.node(name, nil)
	node, err := client.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node.Status.Capacity = corev1.ResourceList{profile: resource.MustParse("8")}
	node.Status.Allocatable = node.Status.Capacity
	if _, err := client.CoreV1().Nodes().UpdateStatus(s.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	yaml := "kind: quota\nmetadata: {name: NAME, namespace: NAME}\nspec: {gpu: 0}\n"
	yaml = strings.ReplaceAll(yaml, "NAME", s.namespace)
	if got := s.expect(0, "", yaml, "create", "-f", "-"); !strings.Contains(got.stderr, "may have no MIG slices of 7g.80gb") {
		t.Errorf("stderr is %q", got.stderr)
	}
	if got := s.expect(0, "", yaml, "apply", "-f", "-"); !strings.HasSuffix(got.stdout, "unchanged\n") {
		t.Errorf("stdout is %q", got.stdout)
	}
	quota, err := client.CoreV1().ResourceQuotas(s.namespace).Get(s.Context(), "gpuctl-quota", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if bound, ok := quota.Spec.Hard["requests."+profile]; !ok || !bound.IsZero() {
		t.Errorf("the namespace is bounded by %v", quota.Spec.Hard)
	}
	allowing := strings.Replace(yaml, "gpu: 0", "gpu: 0, mig: {7g.80gb: 2}", 1)
	if got := s.expect(0, "", allowing, "apply", "-f", "-"); strings.Contains(got.stderr, "7g.80gb") {
		t.Errorf("stderr is %q", got.stderr)
	}
}

package inventory

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestAliasedTypesTakeOneList asks for types that nodes have by each alias, by our own label, and not at all.
func TestAliasedTypesTakeOneList(t *testing.T) {
	var nodes []runtime.Object
	types, want := []string{"ours", "none"}, map[string]bool{}
	for i, label := range names.GPUTypeLabels {
		name := "n-" + string(rune('a'+i))
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "type-" + name}}}
		if i == 0 {
			node.Labels[names.GPUTypeLabels[1]], node.Labels[label] = "none", "ours"
		} else {
			types, want["type-"+name] = append(types, "type-"+name), true
		}
		nodes = append(nodes, node)
	}
	client := fake.NewClientset(nodes...)
	got, err := NewReader(client).AliasedTypes(t.Context(), types)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if requests := len(client.Actions()); requests != 1 {
		t.Errorf("%d requests, want 1", requests)
	}
}

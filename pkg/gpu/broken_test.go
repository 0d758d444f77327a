package gpu

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestBroken(t *testing.T) {
	const inventory = `{"version":1,"gpus":[{"uuid":"a","index":0,"health":"Xid79"},{"uuid":"b","index":1,"health":"Healthy"},{"uuid":"c","index":2,"health":"Lost"}]}`
	const both = `{"version":1,"containers":{"x":[{"uuid":"c","index":2},{"uuid":"b","index":1}],"y":[{"uuid":"c","index":2}]}}`
	for name, tc := range map[string]struct {
		inventory, devices string
		on, under, held    []string
	}{
		"one of its cards":                     {inventory, both, []string{"a", "c"}, []string{"c"}, []string{"b", "c"}},
		"another's card":                       {inventory, `{"version":1,"containers":{"x":[{"uuid":"b","index":1}]}}`, []string{"a", "c"}, nil, []string{"b"}},
		"a pod without cards":                  {inventory, "", []string{"a", "c"}, nil, nil},
		"an annotation that nobody can read":   {inventory, "{", []string{"a", "c"}, nil, nil},
		"a node that does not report":          {"", both, nil, nil, []string{"b", "c"}},
		"an inventory that nobody can read":    {"{", both, nil, nil, []string{"b", "c"}},
		"a card that the node has no more":     {inventory, `{"version":1,"containers":{"x":[{"uuid":"z","index":0}]}}`, []string{"a", "c"}, nil, []string{"z"}},
		"cards of one number, after a restart": {inventory, `{"version":1,"containers":{"x":[{"uuid":"c","index":0},{"uuid":"a","index":0}]}}`, []string{"a", "c"}, []string{"a", "c"}, []string{"a", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			node, pod := &corev1.Node{}, &corev1.Pod{}
			if tc.inventory != "" {
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, names.AnnotationInventory, tc.inventory)
			}
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, names.AnnotationGPUDevices, tc.devices)
			uuids := func(cards []GPU) (out []string) {
				for i := range cards {
					out = append(out, cards[i].UUID)
				}
				return out
			}
			var held []string
			for _, device := range DevicesOf(pod) {
				held = append(held, device.UUID)
			}
			got := [][]string{uuids(BrokenGPUsOn(node)), uuids(BrokenGPUsUnder(node, pod)), held}
			if diff := cmp.Diff([][]string{tc.on, tc.under, tc.held}, got); diff != "" {
				t.Errorf("broken, broken under the pod, held (-want +got):\n%s", diff)
			}
		})
	}
}

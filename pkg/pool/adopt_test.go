package pool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAdopt(t *testing.T) {
	tests := map[string]struct {
		labels map[string]string
		remove bool
		want   map[string]string // "-" for a label that goes
		taken  []Taken
	}{
		"pool and type": {labels: map[string]string{"runwhere.ai/pool": "p", "runwhere.ai/gpuType": "A"},
			want: map[string]string{"g8s.host/pool": "p", "g8s.host/gpu-type": "A"}},
		"the old ones go": {labels: map[string]string{"runwhere.ai/pool": "p"}, remove: true,
			want: map[string]string{"g8s.host/pool": "p", "runwhere.ai/pool": "-"}},
		"of two spellings that with a hyphen counts": {labels: map[string]string{"runwhere.ai/gpuType": "A", "runwhere.ai/gpu-type": "B"},
			want: map[string]string{"g8s.host/gpu-type": "B"}},
		"what is so already": {labels: map[string]string{"runwhere.ai/pool": "p", "g8s.host/pool": "p"}},
		"the pool default":   {labels: map[string]string{"runwhere.ai/pool": "default"}},
		"an empty value":     {labels: map[string]string{"runwhere.ai/gpu-type": ""}},
		"other labels of it": {labels: map[string]string{"runwhere.ai/namespace": "x", "example.com/pool": "y"}},
		"one that says another": {labels: map[string]string{"runwhere.ai/pool": "p", "g8s.host/pool": "q"},
			want: map[string]string{"g8s.host/pool": "p"}, taken: []Taken{{Node: "n", Key: "g8s.host/pool", Value: "q"}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			plan := Adopt([]string{"n"}, tc.remove, []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: tc.labels}}})
			var got map[string]string
			for _, patch := range plan.Patches {
				got = map[string]string{}
				for key, change := range patch.Labels {
					got[key] = "-"
					if change.After != nil {
						got[key] = *change.After
					}
				}
			}
			if diff := cmp.Diff(tc.want, got) + cmp.Diff(tc.taken, plan.Taken); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAdoptFindsItsNodes has nodes with labels of the first gpuctl, without, and one that is named and not there.
func TestAdoptFindsItsNodes(t *testing.T) {
	nodes := []corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"runwhere.ai/pool": "p"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"runwhere.ai/rack": "r"}}},
		{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"g8s.host/pool": "p"}}},
	}
	var got []string
	plan := Adopt(nil, false, nodes)
	for _, patch := range plan.Patches {
		got = append(got, patch.Node)
	}
	if diff := cmp.Diff([]string{"a", "b"}, got) + cmp.Diff(0, len(plan.Unchanged)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if plan := Adopt([]string{"d"}, false, nodes); len(plan.Missing) != 1 || len(plan.Patches) != 0 {
		t.Errorf("the plan is %+v, want one missing node", plan)
	}
}

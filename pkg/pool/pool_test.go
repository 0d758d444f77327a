package pool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// node returns a node with pairs of label key and value.
func node(name string, labels ...string) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", Labels: map[string]string{}}}
	for i := 0; i+1 < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
}

func described(n corev1.Node, description string) corev1.Node {
	n.Annotations = map[string]string{names.AnnotationDescription: description}
	return n
}

// result is a plan in a form that is easy to read in a test.
type result struct {
	Patches            []string
	Unchanged, Missing []string
	Foreign            []Foreign
}

func resultOf(p Plan) result {
	r := result{Unchanged: p.Unchanged, Missing: p.Missing, Foreign: p.Foreign}
	for _, patch := range p.Patches {
		r.Patches = append(r.Patches, patch.String())
	}
	return r
}

func TestJoin(t *testing.T) {
	cases := map[string]struct {
		pool  workload.Pool
		nodes []corev1.Node
		want  result
	}{
		"nodes without a pool are labelled in the order of the file": {
			pool: workload.Pool{Name: "train", Nodes: []workload.PoolNode{
				{Name: "n2", GPUType: "A800-20G"}, {Name: "n1"},
			}},
			nodes: []corev1.Node{node("n1"), node("n2")},
			want: result{Patches: []string{
				"n2: g8s.host/gpu-type=A800-20G, g8s.host/pool=train",
				"n1: g8s.host/pool=train",
			}},
		},
		"a node that is as it shall be needs no patch": {
			pool:  workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "n1", GPUType: "A100-80G"}}},
			nodes: []corev1.Node{node("n1", names.LabelPool, "train", names.LabelGPUType, "A100-80G")},
			want:  result{Unchanged: []string{"n1"}},
		},
		"a missing node stops the plan even by force": {
			pool:  workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "n1"}, {Name: "gone"}}},
			nodes: []corev1.Node{node("n1")},
			want: result{
				Patches: []string{"n1: g8s.host/pool=train"}, Missing: []string{"gone"},
			},
		},
		"a node of another pool needs force, and loses that pool's description": {
			pool:  workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "n1"}}},
			nodes: []corev1.Node{described(node("n1", names.LabelPool, "dev"), "notebooks")},
			want: result{
				Patches: []string{"n1: g8s.host/pool=train (was dev), g8s.host/description removed"},
				Foreign: []Foreign{{Node: "n1", Pool: "dev"}},
			},
		},
		"the description is noted on the node": {
			pool:  workload.Pool{Name: "train", Description: "large", Nodes: []workload.PoolNode{{Name: "n1"}}},
			nodes: []corev1.Node{node("n1", names.LabelPool, "train")},
			want:  result{Patches: []string{"n1: g8s.host/description=large"}},
		},
		"a file without description leaves that of the pool alone": {
			pool:  workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "n1"}}},
			nodes: []corev1.Node{described(node("n1", names.LabelPool, "train"), "large")},
			want:  result{Unchanged: []string{"n1"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, resultOf(Join(&tc.pool, tc.nodes))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLeave(t *testing.T) {
	cases := map[string]struct {
		names []string
		nodes []corev1.Node
		want  result
	}{
		"only the pool label goes, the GPU type stays": {
			names: []string{"n1"},
			nodes: []corev1.Node{described(node("n1", names.LabelPool, "train", names.LabelGPUType, "A100-80G"), "large")},
			want:  result{Patches: []string{"n1: g8s.host/pool removed, g8s.host/description removed"}},
		},
		"a node of another pool is never taken out of it": {
			names: []string{"n1", "n2", "gone"},
			nodes: []corev1.Node{node("n1", names.LabelPool, "dev"), node("n2")},
			want: result{
				Missing: []string{"gone"},
				Foreign: []Foreign{{Node: "n1", Pool: "dev"}, {Node: "n2", Pool: "default"}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, resultOf(Leave("train", tc.names, tc.nodes))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyLeavesThePoolToTheNodesThatTheFileNames(t *testing.T) {
	plan := Apply(&workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "n1"}, {Name: "n2"}}}, []corev1.Node{
		node("n1"), node("n2", names.LabelPool, "train"), node("n3", names.LabelPool, "train"), node("n4", names.LabelPool, "dev"),
	})
	want := result{
		Patches: []string{"n1: g8s.host/pool=train", "n3: g8s.host/pool removed"}, Unchanged: []string{"n2"},
	}
	if diff := cmp.Diff(want, resultOf(plan)); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if plan.Empty {
		t.Error("the pool is said to have no nodes, and has two")
	}
}

func TestDeleteTakesEveryNodeOfThePoolAndNoOther(t *testing.T) {
	nodes := []corev1.Node{
		node("n1", names.LabelPool, "train"), node("n2", names.LabelPool, "dev"),
		node("n3"), node("n4", names.LabelPool, "train"),
	}
	want := result{Patches: []string{"n1: g8s.host/pool removed", "n4: g8s.host/pool removed"}}
	if diff := cmp.Diff(want, resultOf(Delete("train", nodes))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func TestMergePatchSetsRemovesAndRestores(t *testing.T) {
	plan := Join(&workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "n1", GPUType: "A100-80G"}}},
		[]corev1.Node{described(node("n1", names.LabelPool, "dev"), "notebooks")})
	patch := plan.Patches[0]

	want := `{"metadata":{"annotations":{"g8s.host/description":null},` +
		`"labels":{"g8s.host/gpu-type":"A100-80G","g8s.host/pool":"train"},"resourceVersion":"7"}}`
	if diff := cmp.Diff(want, mergePatch(t, patch)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

func TestUndoRestoresWhatNobodyChangedSince(t *testing.T) {
	before := described(node("n1", names.LabelPool, "dev"), "notebooks")
	patch := Join(&workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "n1", GPUType: "A100-80G"}}},
		[]corev1.Node{before}).Patches[0]
	joined := node("n1", names.LabelPool, "train", names.LabelGPUType, "A100-80G")
	joined.ResourceVersion = "8"
	tests := map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"all is as the patch left it": {
			func(*corev1.Node) {},
			`{"metadata":{"annotations":{"g8s.host/description":"notebooks"},` +
				`"labels":{"g8s.host/gpu-type":null,"g8s.host/pool":"dev"},"resourceVersion":"8"}}`,
		},
		"someone moved the node on":           {func(n *corev1.Node) { n.Labels[names.LabelPool] = "other" }, ""},
		"someone removed the label":           {func(n *corev1.Node) { delete(n.Labels, names.LabelGPUType) }, ""},
		"someone wrote the description again": {func(n *corev1.Node) { *n = described(*n, "new") }, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			current := joined.DeepCopy()
			tc.change(current)
			undo, ok := patch.Undo(current)
			got := ""
			if ok {
				got = mergePatch(t, undo)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("undo (-want +got):\n%s", diff)
			}
		})
	}
}

func mergePatch(t *testing.T, p Patch) string {
	t.Helper()
	body, err := p.MergePatch()
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestJoinNotesTheTypesThatItChanges, and none that it gives or leaves.
func TestJoinNotesTheTypesThatItChanges(t *testing.T) {
	wanted := &workload.Pool{Name: "train", Nodes: []workload.PoolNode{
		{Name: "other", GPUType: "A800-80G"}, {Name: "same", GPUType: "A100-80G"}, {Name: "none", GPUType: "A100-80G"}, {Name: "unsaid"},
	}}
	nodes := []corev1.Node{
		node("other", names.LabelGPUType, "A100-80G"), node("same", names.LabelGPUType, "A100-80G"), node("none"), node("unsaid", names.LabelGPUType, "T4"),
	}
	want := []Taken{{Node: "other", Key: names.LabelGPUType, Value: "A100-80G", Becomes: "A800-80G"}}
	for by, plan := range map[string]Plan{"Join": Join(wanted, nodes), "Apply": Apply(wanted, nodes)} {
		if diff := cmp.Diff(want, plan.Taken); diff != "" {
			t.Errorf("%s (-want +got):\n%s", by, diff)
		}
	}
}

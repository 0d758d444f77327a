package submit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/pool"
	"g8s.host/gpu-scheduler/pkg/workload"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestNodesThatAPoolDoesNotTake: a change is refused for what it would break, and not for what is broken anyway.
func TestNodesThatAPoolDoesNotTake(t *testing.T) {
	node := func(name, in, gpuType string) corev1.Node {
		out := fixture.Node(name).GPUs(8, gpuType).Obj()
		if in != "" {
			out.Labels[names.LabelPool] = in
		}
		return *out
	}
	asks := names.GPUPool{Spec: names.GPUPoolSpec{Constraints: names.PoolConstraints{GPUTypes: []string{"A100"}}}}
	asks.Name = "train"
	asking := func(types ...string) *names.GPUPool {
		out := asks.DeepCopy()
		out.Spec.Constraints.GPUTypes = types
		return out
	}
	join := func(nodes ...workload.PoolNode) func([]corev1.Node) pool.Plan {
		return func(all []corev1.Node) pool.Plan { return pool.Join(&workload.Pool{Name: "train", Nodes: nodes}, all) }
	}
	tests := map[string]struct {
		nodes []corev1.Node
		plan  func([]corev1.Node) pool.Plan
		want  []string
		was   *names.GPUPool // what the pool asked before, nil for the same
	}{
		"nodes as they must be":                   {[]corev1.Node{node("a", "", "A100"), node("b", "dev", "A100")}, join(workload.PoolNode{Name: "a"}, workload.PoolNode{Name: "b"}), nil, nil},
		"one of another type":                     {[]corev1.Node{node("b", "", "T4"), node("a", "", "A100")}, join(workload.PoolNode{Name: "a"}, workload.PoolNode{Name: "b"}), []string{"b"}, nil},
		"one that gets the right type with it":    {[]corev1.Node{node("a", "", "T4")}, join(workload.PoolNode{Name: "a", GPUType: "A100"}), nil, nil},
		"one that gets the wrong type with it":    {[]corev1.Node{node("a", "", "A100")}, join(workload.PoolNode{Name: "a", GPUType: "T4"}), []string{"a"}, nil},
		"one that is in it, and gets a wrong one": {[]corev1.Node{node("a", "train", "A100")}, join(workload.PoolNode{Name: "a", GPUType: "T4"}), []string{"a"}, nil},
		"one that is in it, and wrong already":    {[]corev1.Node{node("a", "train", "T4"), node("b", "", "A100")}, join(workload.PoolNode{Name: "a"}, workload.PoolNode{Name: "b"}), nil, nil},
		"one that leaves":                         {[]corev1.Node{node("a", "train", "T4")}, func(all []corev1.Node) pool.Plan { return pool.Leave("train", []string{"a"}, all) }, nil, nil},
		"one that leaves while another joins": {[]corev1.Node{node("a", "train", "T4"), node("b", "", "A100")}, func(all []corev1.Node) pool.Plan {
			return pool.Apply(&workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "b"}}}, all)
		}, nil, nil},
		"one that the file names and does not change, and the pool asks more": {
			nodes: []corev1.Node{node("a", "train", "T4")}, plan: join(workload.PoolNode{Name: "a"}), want: []string{"a"}, was: &names.GPUPool{},
		},
		"one that the file does not name, and that stays": {
			nodes: []corev1.Node{node("a", "train", "T4"), node("b", "", "A100")}, plan: join(workload.PoolNode{Name: "b"}), want: []string{"a"}, was: &names.GPUPool{},
		},
		"one that leaves as the pool asks more": {
			nodes: []corev1.Node{node("a", "train", "T4"), node("b", "train", "A100")}, was: &names.GPUPool{},
			plan: func(all []corev1.Node) pool.Plan {
				return pool.Apply(&workload.Pool{Name: "train", Nodes: []workload.PoolNode{{Name: "b"}}}, all)
			},
		},
		"one that was wrong by what the pool asked, too": {
			nodes: []corev1.Node{node("a", "train", "T4")}, plan: join(workload.PoolNode{Name: "a"}), was: asking("V100"),
		},
		"one of another pool": {
			nodes: []corev1.Node{node("a", "dev", "T4"), node("b", "", "A100")}, plan: join(workload.PoolNode{Name: "b"}), was: &names.GPUPool{},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := membersAround(tc.plan(tc.nodes), tc.nodes, tc.was != nil)
			was := tc.was
			if was == nil {
				was = &asks
			}
			var got []string
			for _, refused := range newViolations(before, was, after, &asks) {
				got = append(got, refused.Node)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

// TestARefusalOfManyNodesFitsAScreen names some of them.
func TestARefusalOfManyNodesFitsAScreen(t *testing.T) {
	err := &ConstraintError{Pool: "train"}
	for i := range 5000 {
		err.Nodes = append(err.Nodes, RefusedNode{Node: fmt.Sprint(i)})
		err.Nodes[i].Violations = append(err.Nodes[i].Violations, nodestate.Violation{
			Text: "it offers 0 GPUs, and must offer 8"})
	}
	if text := err.Error(); strings.Count(text, "\n") != maxRefusedNodes+1 || !strings.HasSuffix(text, "and 4990 more") {
		t.Errorf("got %s", text)
	}
}

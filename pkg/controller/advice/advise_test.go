package advice

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func TestSearch(t *testing.T) {
	tests := map[string]struct {
		bound int
		// jobs are how many start with 0, 1, 2, … new nodes; the last holds for all beyond.
		jobs []int
		want []g8s.CapacityOption
	}{
		"nothing helps":                    {bound: 8, jobs: []int{0}},
		"what helps is there already":      {bound: 8, jobs: []int{3}},
		"one node is enough":               {bound: 8, jobs: []int{0, 4}, want: []g8s.CapacityOption{{Nodes: 1, Jobs: 4}}},
		"each node starts one":             {bound: 6, jobs: []int{0, 1, 2, 3, 4, 5, 6}, want: []g8s.CapacityOption{{Nodes: 2, Jobs: 2}, {Nodes: 6, Jobs: 6}}},
		"a gang needs all of them":         {bound: 12, jobs: []int{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, want: []g8s.CapacityOption{{Nodes: 12, Jobs: 1}}},
		"the last of them need many":       {bound: 16, jobs: []int{0, 1, 2, 2, 2, 2, 2, 2, 2, 3}, want: []g8s.CapacityOption{{Nodes: 3, Jobs: 2}, {Nodes: 9, Jobs: 3}}},
		"some would start without any":     {bound: 4, jobs: []int{1, 1, 2}, want: []g8s.CapacityOption{{Nodes: 2, Jobs: 2}}},
		"some start with no number at all": {bound: 4, jobs: []int{0, 1, 1, 1, 1}, want: []g8s.CapacityOption{{Nodes: 1, Jobs: 1}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			asked := 0
			got, err := SearchNodes(tc.bound, func(nodes int) (int, error) {
				asked++
				return tc.jobs[min(nodes, len(tc.jobs)-1)], nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if asked > 8 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
	broken := errors.New("broken")
	for at := range 5 {
		asked := 0
		_, err := SearchNodes(16, func(nodes int) (int, error) {
			if asked++; asked > at {
				return 0, broken
			}
			return nodes, nil
		})
		if !errors.Is(err, broken) {
			t.Errorf("got error %v after %d answers, want that of the simulation", err, at)
		}
	}
}

func waiting(name, job string, gpus int64, priority int32, minutes int) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "team", CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(minutes) * time.Minute)),
			Labels: map[string]string{g8s.LabelJob: job, g8s.LabelJobType: "training"}, Annotations: map[string]string{g8s.AnnotationGPUTypes: "A100-80G,A800-80G"},
		},
		Spec: corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{g8s.ResourceGPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
		}}}},
	}
}

func machine(name, kind, gpus string, change ...func(*corev1.Node)) corev1.Node {
	out := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: "old", Labels: map[string]string{g8s.LabelGPUType: kind}},
		Status:     corev1.NodeStatus{Allocatable: corev1.ResourceList{g8s.ResourceGPU: resource.MustParse(gpus)}},
	}
	for _, c := range change {
		c(&out)
	}
	return out
}

// TestWaitingOf: by priority, then by the age of the job, its pods together.
func TestWaitingOf(t *testing.T) {
	unreadable := waiting("odd-0", "odd", 1, 0, 90)
	unreadable.Spec.Containers[0].Resources.Limits[g8s.ResourceGPU] = resource.MustParse("500m")
	gated := waiting("gated-0", "gated", 1, 0, 90)
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "quota"}}
	got := WaitingOf([]corev1.Pod{
		waiting("young-0", "young", 8, 0, 1), waiting("old-1", "old", 8, 0, 2), waiting("young-1", "young", 8, 0, 50),
		waiting("old-0", "old", 8, 0, 60), waiting("high-0", "high", 4, 10, 5), unreadable, gated, waiting("cpu-0", "cpu", 0, 0, 99),
	})
	var order []string
	for _, pod := range got.Pods {
		order = append(order, pod.Name)
	}
	if diff := cmp.Diff([]string{"high-0", "old-0", "old-1", "young-0", "young-1"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	if len(got.Jobs) != 3 || got.GPUs != 36 || !got.Since.Equal(now.Add(-60*time.Minute)) {
		t.Errorf("got %d jobs, %d GPUs since %s, want 3, 36 since an hour", len(got.Jobs), got.GPUs, got.Since)
	}
}

// TestStarted: a job has started when all of its pods have a place.
func TestStarted(t *testing.T) {
	placed := func(pod corev1.Pod) corev1.Pod { pod.Spec.NodeName = "n"; return pod }
	outcome := &whatif.Outcome{Pods: []corev1.Pod{
		placed(waiting("a-0", "a", 1, 0, 0)), placed(waiting("b-0", "b", 1, 0, 0)), waiting("b-1", "b", 1, 0, 0), waiting("c-0", "c", 1, 0, 0), placed(waiting("c-1", "c", 1, 0, 0)),
	}}
	if got := StartedJobs(outcome); got != 1 {
		t.Errorf("%d jobs start, want a alone", got)
	}
}

func TestTemplateOf(t *testing.T) {
	wait := WaitingOf([]corev1.Pod{waiting("a-0", "a", 8, 0, 1)})
	closed := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	tainted := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: g8s.TaintSuspect}} }
	tests := map[string]struct {
		nodes []corev1.Node
		want  string
	}{
		"no node":                               {},
		"the type that is asked for":            {nodes: []corev1.Node{machine("a", "T4", "16"), machine("b", "A800-80G", "8")}, want: "b"},
		"of those the one with the most":        {nodes: []corev1.Node{machine("a", "A100-80G", "4"), machine("b", "A100-80G", "8")}, want: "b"},
		"of those the first":                    {nodes: []corev1.Node{machine("b", "A100-80G", "8"), machine("a", "A100-80G", "8")}, want: "a"},
		"another type, where there is no other": {nodes: []corev1.Node{machine("a", "T4", "16")}, want: "a"},
		"one that takes pods":                   {nodes: []corev1.Node{machine("a", "A100-80G", "8", closed), machine("b", "A100-80G", "8", tainted), machine("c", "T4", "1")}, want: "c"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if node := TemplateOf(tc.nodes, wait); node != nil {
				got = node.Name
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	node := machine("train-01", "A100-80G", "8")
	wait := WaitingOf([]corev1.Pod{waiting("a-0", "a", 8, 0, 40), waiting("b-0", "b", 8, 0, 3)})
	tests := map[string]struct {
		options []g8s.CapacityOption
		want    string
	}{
		"all": {options: []g8s.CapacityOption{{Nodes: 1, Jobs: 1}, {Nodes: 2, Jobs: 2}},
			want: "2 jobs with 16 GPUs, waiting for 40 min: 2 nodes like train-01 (8 GPUs A100-80G) would start all; 1 would start 1"},
		"some": {options: []g8s.CapacityOption{{Nodes: 1, Jobs: 1}},
			want: "2 jobs with 16 GPUs, waiting for 40 min: 1 node like train-01 (8 GPUs A100-80G) would start 1 of them, and no number of such nodes the others"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, AdviceText(wait, &node, tc.options, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestQuestion: the new nodes are others, and those that wait evict nobody.
func TestQuestion(t *testing.T) {
	nodes := []corev1.Node{machine("a", "A100-80G", "8")}
	s := Situation{Nodes: nodes, Waiting: WaitingOf([]corev1.Pod{waiting("x-0", "x", 8, 0, 1)}), Template: &nodes[0],
		Reservations: []g8s.GPUReservation{{Spec: g8s.GPUReservationSpec{Pool: "train"}}}, Now: time.Unix(7, 0)}
	question, err := s.BuildQuestion(2)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, node := range question.Nodes {
		names = append(names, node.Name+" "+node.Labels[corev1.LabelHostname])
	}
	if diff := cmp.Diff([]string{"a ", "a-another-1 a-another-1", "a-another-2 a-another-2"}, names); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if text := string(question.Workload[0]); !strings.Contains(text, `"preemptionPolicy":"Never"`) || !strings.Contains(text, `"kind":"Pod"`) {
		t.Errorf("the pod is %s", text)
	}
	if len(question.Reservations) != 1 || !question.Now.Equal(s.Now) {
		t.Errorf("of reservations it knows %+v at %s", question.Reservations, question.Now)
	}
	if len(s.Nodes) != 1 || ptr.Deref(s.Waiting.Pods[0].Spec.PreemptionPolicy, "") != "" {
		t.Error("the situation was changed")
	}
}

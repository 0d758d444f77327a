package plugins_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestTheWorkedExample computes every number of the example in docs/scheduling.md, and asks for the very lines.
func TestTheWorkedExample(t *testing.T) {
	page, err := os.ReadFile("../docs/scheduling.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## A worked example\n")
	section, _, _ = strings.Cut(section, "\n## ")
	lines := slices.Concat(examplePairs(t), exampleScores(t, 2), exampleScores(t, 1))
	for _, line := range lines {
		if !strings.Contains(section, line) {
			t.Errorf("docs/scheduling.md lacks the line\n%s", line)
		}
	}
}

// exampleNodes are a DGX-1 with four cards taken, and a node without NVLink with six, and who holds them.
func exampleNodes(t *testing.T) ([]*corev1.Node, []*corev1.Pod) {
	const memory = 32768
	pcie := fixture.Cards("pcie", memory, memory, memory, memory, memory, memory, memory, memory).Switches(4, 4)
	nodes := []*corev1.Node{
		fixture.Node("dgx").GPUs(8, "V100-SXM2").Annotate(names.AnnotationInventory, fixture.DGX1("dgx").Annotation(t)).Obj(),
		fixture.Node("pcie").GPUs(8, "V100-PCIE").Annotate(names.AnnotationInventory, pcie.Annotation(t)).Obj(),
	}
	var pods []*corev1.Pod
	for node, cards := range map[string][]int{"dgx": {0, 3, 4, 7}, "pcie": {0, 1, 2, 4, 5, 7}} {
		for _, card := range cards {
			pod := fixture.Pod(fmt.Sprintf("%s-%d", node, card)).GPUs(1).Obj()
			pod.UID, pod.Spec.NodeName = types.UID(pod.Name), node
			pod.Annotations[names.AnnotationGPUDevices] = encode(t, gpu.Assignment{"main": {{UUID: fixture.UUID(node, card), Index: card}}})
			pods = append(pods, pod)
		}
	}
	return nodes, pods
}

func encode(t testing.TB, assignment gpu.Assignment) string {
	t.Helper()
	text, err := assignment.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func examplePod(gpus int64) *corev1.Pod {
	pod := fixture.Pod("train").GPUs(gpus).Annotate(names.AnnotationGPUTypes, "V100-SXM2,V100-PCIE").Obj()
	pod.UID = "train"
	return pod
}

// examplePairs are the lines about the pairs that are free on the DGX-1, and about the one that is chosen.
func examplePairs(t *testing.T) []string {
	allocator, err := gpu.NewAllocator(fixture.DGX1("dgx").Inventory(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const free = gpu.Set(1<<1 | 1<<2 | 1<<5 | 1<<6)
	demand, err := gpu.DemandOf(examplePod(2))
	if err != nil {
		t.Fatal(err)
	}
	var used gpu.Used
	used.Add(&gpu.Holding{Whole: allocator.HealthyGPUs() &^ free})
	chosen, reason := allocator.Allocate(&used, &demand)
	if !reason.IsZero() {
		t.Fatal(reason.Detail())
	}
	lines := []string{names.AnnotationGPUDevices + ": " + encode(t, allocator.BuildAssignment(&demand, &chosen))}
	for _, pair := range []gpu.Set{1<<1 | 1<<2, 1<<5 | 1<<6, 1<<1 | 1<<5, 1<<2 | 1<<6, 1<<1 | 1<<6, 1<<2 | 1<<5} {
		mark := "no"
		if pair == chosen.Whole {
			mark = "**yes**"
		}
		lines = append(lines, fmt.Sprintf("| %v | %d GB/s, %v | %d of 2 | %s |", pair, allocator.SetBandwidth(pair),
			allocator.SlowestPath(pair), allocator.PotentialOf(free&^pair).Twos, mark))
	}
	return lines
}

// exampleScores are the lines about what the two nodes are worth for a pod.
func exampleScores(t *testing.T, gpus int64) []string {
	bed := newBed(t, func(args *configv1.GPUScoreArgs) { args.Strategy = configv1.Pack })
	nodes, pods := exampleNodes(t)
	list := bed.set(t, nodes, pods)
	state, pod := framework.NewCycleState(), examplePod(gpus)
	if status := bed.RunPreScorePlugins(t.Context(), state, pod, list); !status.IsSuccess() {
		t.Fatal(status)
	}
	if _, status := bed.RunScorePlugins(t.Context(), state, pod, list); !status.IsSuccess() {
		t.Fatal(status)
	}
	scores, err := cycle.Read[*cycle.Scores](state, cycle.ScoresKey)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, candidate := range scores.BestCandidates(len(list)) {
		var cells, terms []string
		for _, part := range candidate.Parts {
			cells = append(cells, fmt.Sprint(part.Value))
			terms = append(terms, fmt.Sprintf("%d·%d", part.Weight, part.Value))
		}
		lines = append(lines, fmt.Sprintf("| %d | %s | %s | (%s) / 100 = **%d** |", gpus, candidate.Node,
			strings.Join(cells, " | "), strings.Join(terms, " + "), candidate.Score))
	}
	return lines
}

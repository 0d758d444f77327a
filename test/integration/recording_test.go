package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/fixture"
)

// reproduced is the part of comparisons, as gpu-scheduler simulate verify prints them, that the test judges.
type reproduced struct {
	Placements, SamePlace, SameNode, Refusals, SameRefusals, JustLeft int

	ReproducedPercent float64
	Differences       []json.RawMessage
}

// spreading is a policy that decides otherwise than any that is recorded.
const spreading = policyHeader + "strategy: Spread\nstrategyByJobType:\n" +
	"- {jobType: training, strategy: Spread}\n- {jobType: inference, strategy: Spread}\n- {jobType: notebook, strategy: Spread}\n"

// TestASimulationReproducesARecording records what the scheduler does with a crowd of pods that come and go, and has
// the simulator make each decision again.
func TestASimulationReproducesARecording(t *testing.T) {
	shipped, err := os.ReadFile(cluster.PolicyPath())
	if err != nil {
		t.Fatal(err)
	}
	for name, policy := range map[string]string{
		"the policy that is shipped": string(shipped),
		"a policy that packs":        policyHeader + "strategy: Pack\n",
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			// What a scheduler learned before a recording began is not in it.
			endScheduler(t, (*sandbox.Process).Stop)
			restartScheduler(t, sandbox.SchedulerOptions{})
			e.writePolicy(policy)
			defer e.writePolicy(string(shipped))
			time.Sleep(reloadLimit)
			recording := e.recordCrowd()
			got := verify(t, recording, policy)
			t.Logf("%.2f %% of the decisions come out the same: %d of %d placements (%d on the same node) and %d of %d refusals, "+
				"%d of these beside pods that left before the report", got.ReproducedPercent, got.SamePlace, got.Placements, got.SameNode,
				got.SameRefusals, got.Refusals, got.JustLeft)
			for _, difference := range got.Differences {
				t.Logf("%s", difference)
			}
			if got.Placements < crowd/2 || got.Refusals < crowd/20 {
				t.Errorf("%d pods were placed and %d refused, so the recording shows little", got.Placements, got.Refusals)
			}
			if got.ReproducedPercent < 99 {
				t.Errorf("%.2f %% of the decisions come out the same, want 99 %%", got.ReproducedPercent)
			}
			if other := verify(t, recording, spreading); other.SamePlace > got.Placements*3/4 {
				t.Errorf("a policy that spreads places %d of %d pods alike, so the comparison shows little", other.SamePlace, got.Placements)
			}
		})
	}
}

// crowd is how many pods come.
const crowd = 500

// recordCrowd records what becomes of a crowd on mixed nodes, and returns the name of the file.
func (e *env) recordCrowd() string {
	e.Helper()
	e.createNodes(mixedNodes(e.T)...)
	stop := startRecording(e.T)
	r := rand.New(rand.NewPCG(1, 2))
	var there []string
	for i := range crowd {
		pod := mixedPod(r, i)
		e.createPods(pod)
		there = append(there, pod.Name)
		if r.IntN(8) == 0 { // some leave, whether they have a node or not
			at := r.IntN(len(there))
			e.removePod(there[at])
			there = append(there[:at], there[at+1:]...)
		}
		if i%100 == 99 {
			e.waitDecided()
		}
	}
	e.createPods(fixture.Pod("last").Obj())
	e.waitBound("last")
	return stop("last")
}

// mixedNodes are of three pools and three types; some have cards that report how they are linked, some share theirs.
func mixedNodes(t *testing.T) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range 30 {
		name := fmt.Sprintf("dgx-%02d", i)
		nodes = append(nodes, fixture.Node(name).Pool("training").Label(names.LabelRack, fmt.Sprint("r", i%3)).GPUs(8, "V100-32G").
			Annotate(names.AnnotationInventory, fixture.DGX1(name).Annotation(t)).Obj())
	}
	for i := range 20 {
		nodes = append(nodes, fixture.Node(fmt.Sprintf("a100-%02d", i)).Pool("training").Label(names.LabelRack, "r3").GPUs(8, "A100-80G").Obj())
	}
	for i := range 12 {
		nodes = append(nodes, fixture.Node(fmt.Sprintf("shared-%02d", i)).Pool("dev").SharedGPUs(4, 100).Label(names.LabelMemory, "48Gi").Obj())
	}
	for i := range 12 {
		nodes = append(nodes, fixture.Node(fmt.Sprintf("default-%02d", i)).GPUs(4, "T4-16G").Obj(), fixture.Node(fmt.Sprintf("cpu-%02d", i)).Obj())
	}
	return nodes
}

// mixedPod asks for whole GPUs, shares or none, of a pool, at times of some types, at a priority and for a type of job.
func mixedPod(r *rand.Rand, i int) *corev1.Pod {
	b := fixture.Pod(fmt.Sprintf("pod-%03d", i))
	if r.IntN(2) == 0 {
		b.Label(names.LabelJob, fmt.Sprint("job-", r.IntN(40))).Label(names.LabelJobType, []string{"training", "inference", "notebook"}[r.IntN(3)])
	}
	switch r.IntN(10) {
	case 0, 1, 2, 3:
		b.GPUs(1 << r.IntN(4)).Pool("training")
		if r.IntN(3) == 0 {
			b.Annotate(names.AnnotationGPUTypes, []string{"A100-80G", "V100-32G,A100-80G"}[r.IntN(2)])
		}
	case 4, 5, 6:
		b.SharedGPUs(int64(1+r.IntN(2)), fmt.Sprintf("%dGi", 2+r.IntN(20))).Pool("dev")
	case 7:
		b.GPUs(int64(1 + r.IntN(3)))
	case 8:
		b.CPU(int64(1 + r.IntN(8)))
	default:
		b.GPUs(16).Pool("training") // no node has as many
	}
	return withClass(b, []string{names.PriorityClassLow, names.PriorityClassMedium, names.PriorityClassMedium, names.PriorityClassHigh}[r.IntN(4)])
}

// removePod deletes a pod that may have been evicted.
func (e *env) removePod(name string) {
	e.Helper()
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	if err := e.client.CoreV1().Pods(e.namespace).Delete(e.Context(), name, now); err != nil {
		e.Logf("deleting pod %s: %v", name, err)
	}
}

// waitDecided waits until each pod has a node or has been refused.
func (e *env) waitDecided() {
	e.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		list, err := e.client.CoreV1().Pods(e.namespace).List(e.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName="})
		if err != nil {
			e.Fatal(err)
		}
		undecided := 0
		for i := range list.Items {
			if verdictOn(&list.Items[i]) == "" {
				undecided++
			}
		}
		if undecided == 0 {
			return
		}
		if time.Now().After(deadline) {
			e.Fatalf("%d pods have neither a node nor a reason", undecided)
		}
	}
}

// simulator is a command of the scheduler that was built.
func simulator(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	tools, err := sandbox.FindTools()
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(tools), "gpu-scheduler"), append([]string{"simulate"}, args...)...)
}

// startRecording records until the function it returns is called, which waits for the binding of one last pod.
func startRecording(t *testing.T) func(last string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	cmd := simulator(t, "record", "--kubeconfig", cluster.Kubeconfig(), "--output", path)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	wait := func(what string, words ...string) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			data, err := os.ReadFile(path)
			if err == nil && hasLine(string(data), words...) {
				return
			}
			if time.Now().After(deadline) {
				_ = cmd.Process.Kill()
				t.Fatalf("%s is not in the recording: %v\n%s", what, err, said.String())
			}
		}
	}
	wait("the beginning", `"BOOKMARK"`)
	return func(last string) string {
		t.Helper()
		wait("the binding of pod "+last, `"name":"`+last+`"`, `"nodeName":`)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatalf("recording: %v\n%s", err, said.String())
		}
		return path
	}
}

// hasLine reports whether a line of a text has all of some words.
func hasLine(text string, words ...string) bool {
	for line := range strings.Lines(text) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			return true
		}
	}
	return false
}

// verify has the simulator make the decisions of a recording again, by a policy.
func verify(t *testing.T, recording, policy string) reproduced {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := simulator(t, "verify", "--recording", recording, "--policy", path, "-o", "json")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("verifying: %v\n%s", err, said.String())
	}
	var answer struct{ Comparisons []reproduced }
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Comparisons) != 1 {
		t.Fatalf("reading the comparison: %v\n%s", err, out)
	}
	return answer.Comparisons[0]
}

package why

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/cli"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/whatif"
	"g8s.host/gpu-scheduler/test/fixture"
)

// train writes a training job of some nodes and GPUs each into a file.
func (e *env) train(nodes, gpus int, more string) string {
	e.Helper()
	path := filepath.Join(e.TempDir(), "job.yaml")
	text := fmt.Sprintf("kind: training\njob: {name: job%s}\nenvironment: {image: busybox, command: [run]}\n"+
		"resources: {pool: %s, gpu: %d, nodes: %d, cpu: 1, memory: 1Gi}\n", more, e.pool, gpus, nodes)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		e.Fatal(err)
	}
	return path
}

// simulated asks where the job of a file would go, as a program does, and sees that nothing is created.
func (e *env) simulated(path string) whatif.Answer {
	e.Helper()
	stdout, _ := e.gpuctl("simulate", "-f", path, "-o", "json")
	var answer whatif.Answer
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		e.Fatalf("%v in %s", err, stdout)
	}
	if jobs, err := client.BatchV1().Jobs(e.namespace).List(e.Context(), metav1.ListOptions{}); err != nil || len(jobs.Items) > 0 {
		e.Fatalf("%d jobs are there after asking where one would go: %v", len(jobs.Items), err)
	}
	return answer
}

// withSimulator puts the scheduler that was built where gpuctl looks for it.
func withSimulator(t *testing.T) {
	t.Helper()
	tools, err := sandbox.FindTools()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(tools)+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// TestAJobGoesWhereItWasSaidToGo asks, creates the job, and compares nodes and cards.
func TestAJobGoesWhereItWasSaidToGo(t *testing.T) {
	withSimulator(t)
	for name, tc := range map[string]struct{ nodes, gpus int }{
		"a job of one pod": {1, 2}, "a gang": {3, 8},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			for i := range 4 {
				node := e.node(fmt.Sprint("n", i)).GPUs(8, a100)
				node.Annotate(names.AnnotationInventory, fixture.DGX1(e.namespace+fmt.Sprint("-n", i)).Annotation(t))
				e.createNodes(node.Obj())
			}
			e.hold("n2", 5)
			path := e.train(tc.nodes, tc.gpus, "")
			answer := e.simulated(path)
			if len(answer.Jobs) != 1 || !answer.Jobs[0].Starts || answer.Policy != whatif.PolicyOfCluster {
				t.Fatalf("the answer is %+v, want that the job starts, by the cluster's policy", answer)
			}
			want := map[string]int{}
			for _, placement := range answer.Jobs[0].Placements {
				want[placement.Node+cards(placement.Devices)]++
			}
			person, _ := e.gpuctl("simulate", "-f", path)
			if !strings.Contains(person, "training/job would start now") || !strings.Contains(person, answer.Jobs[0].Placements[0].Node) {
				t.Errorf("a person is told:\n%s", person)
			}
			t.Logf("\n%s", person)
			e.gpuctl("create", "-f", path)
			got := map[string]int{}
			e.eventually("the job's pods to be bound", func(ctx context.Context) bool {
				clear(got)
				for _, pod := range e.pods(ctx) {
					if pod.Spec.NodeName == "" {
						continue
					}
					assignment, err := gpu.ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
					if err != nil {
						t.Fatal(err)
					}
					for _, devices := range assignment {
						got[pod.Spec.NodeName+cards(devices)]++
					}
				}
				return len(got) == tc.nodes
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("places (-said +came):\n%s", diff)
			}
		})
	}
}

func cards(devices []gpu.Device) string {
	var text strings.Builder
	for _, device := range devices {
		fmt.Fprint(&text, " ", device.UUID)
	}
	return text.String()
}

func TestAJobThatWouldWait(t *testing.T) {
	withSimulator(t)
	tests := map[string]struct {
		nodes, gpus int
		more        string
		cause       reason.Cause
		says        []string
	}{
		"more GPUs than any node has": {
			nodes: 1, gpus: 16, cause: reason.TooManyGPUs, says: []string{"training/job would wait", "16", "What to do"},
		},
		"GPUs that others hold": {
			nodes: 1, gpus: 8, cause: reason.Busy, says: []string{"would wait", "Nearest nodes", "holder"},
		},
		"a gang of which one member finds no place": {
			nodes: 2, gpus: 2, cause: reason.GangWaiting, says: []string{"would wait", "room for 1 of 2 members"},
		},
		"a high job would evict a low one": {
			nodes: 1, gpus: 8, more: ", priority: high", says: []string{"would start now", "Would be evicted"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.createNodes(e.node("n").GPUs(8, a100).Obj())
			e.hold("n", 5)
			path := e.train(tc.nodes, tc.gpus, tc.more)
			answer := e.simulated(path)
			if job := answer.Jobs[0]; job.Starts != (tc.cause == "") || job.Cause != tc.cause {
				t.Errorf("starts %v, cause %q, want %q: %+v", job.Starts, job.Cause, tc.cause, job.Findings)
			}
			person, _ := e.gpuctl("simulate", "-f", path)
			for _, text := range tc.says {
				if !strings.Contains(person, text) {
					t.Errorf("the answer does not say %q", text)
				}
			}
			t.Logf("\n%s", person)
		})
	}
}

// TestSimulateSaysWhichRightIsMissing asks as somebody who may read one namespace alone.
func TestSimulateSaysWhichRightIsMissing(t *testing.T) {
	withSimulator(t)
	e := newEnv(t)
	path := e.train(1, 1, "")
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), e.namespace, "default")
	if err != nil {
		t.Fatal(err)
	}
	streams, _, said := cli.TestIOStreams("")
	code := cli.Run(t.Context(), cli.NewFactory(streams), []string{"gpuctl", "--kubeconfig", kubeconfig, "-n", e.namespace, "simulate", "-f", path})
	if text := said.String(); code != 5 || !strings.Contains(text, "you may not list nodes") || !strings.Contains(text, "g8s:fleet-reader") {
		t.Errorf("exit code %d, %s", code, text)
	}
}

// TestSimulateNeedsTheScheduler has no gpu-scheduler in the PATH.
func TestSimulateNeedsTheScheduler(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	e := newEnv(t)
	streams, _, said := cli.TestIOStreams("")
	code := cli.Run(t.Context(), cli.NewFactory(streams),
		[]string{"gpuctl", "--kubeconfig", e.kubeconfig, "-n", e.namespace, "simulate", "-f", e.train(1, 1, "")})
	if !bytes.Contains(said.Bytes(), []byte("needs the program gpu-scheduler")) || code == 0 {
		t.Errorf("exit code %d, %s", code, said.String())
	}
}

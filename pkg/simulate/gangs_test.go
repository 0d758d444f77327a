package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/simulate"
)

// gang is a training job of gpuctl on several nodes.
func gang(name, priority string, nodes, gpus int) string {
	return fmt.Sprintf("kind: training\nversion: v0.1\njob: {name: %s, priority: %s}\nenvironment: {image: i, command: [run]}\n"+
		"resources: {pool: default, gpu: %d, nodes: %d}\n", name, priority, gpus, nodes)
}

// jobs are gpuctl's documents that arrive at a time.
func jobs(t *testing.T, cluster simulate.Cluster, at, lifetime time.Duration, documents ...string) []simulate.Arrival {
	t.Helper()
	arrivals, err := simulate.ParseWorkload("jobs.yaml", []byte(strings.Join(documents, "---\n")), cluster)
	if err != nil {
		t.Fatal(err)
	}
	for i := range arrivals {
		arrivals[i].At, arrivals[i].Lifetime = at, lifetime
	}
	return arrivals
}

// where says which pods are on which nodes in the end, those without a node left out.
func where(result *simulate.Result) (pods []string) {
	for _, decision := range result.Decisions {
		pods = append(pods, strings.TrimPrefix(decision.Pod, "default/"))
	}
	slices.Sort(pods)
	return pods
}

func TestAGangIsPlacedWholeOrNotAtAll(t *testing.T) {
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(3, 8))}
	tests := map[string]struct {
		jobs    []string
		want    []string
		refused string
	}{
		"there is room for all members": {
			jobs: []string{gang("a", "medium", 3, 8)}, want: []string{"a-0", "a-1", "a-2"},
		},
		"one node is missing": {
			jobs: []string{gang("a", "medium", 4, 8)}, refused: "room for 3 of 4 members, even when they are empty",
		},
		"the first takes what the second lacks, which holds nothing meanwhile": {
			jobs: []string{gang("a", "medium", 2, 8), gang("b", "medium", 2, 8), gang("c", "medium", 2, 4)},
			want: []string{"a-0", "a-1", "c-0", "c-1"}, refused: "room for 1 of 2 members now",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			result := run(t, cluster, jobs(t, cluster, 0, 0, tc.jobs...))
			if diff := cmp.Diff(tc.want, where(result)); diff != "" {
				t.Errorf("placed (-want +got):\n%s", diff)
			}
			if tc.refused == "" && len(result.Refused) == 0 {
				return
			}
			if len(result.Refused) != 1 || !strings.Contains(fmt.Sprint(result.Refused[0].Reasons), tc.refused) {
				t.Errorf("refused %+v, want %q", result.Refused, tc.refused)
			}
		})
	}
}

// TestTwoGangsDoNotDeadlock has two gangs of two thirds of the cluster each whose pods come in turns.
func TestTwoGangsDoNotDeadlock(t *testing.T) {
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(6, 8))}
	both := jobs(t, cluster, 0, time.Hour, gang("a", "medium", 4, 8), gang("b", "medium", 4, 8))
	var inTurns []simulate.Arrival
	for i := range 4 {
		inTurns = append(inTurns, both[i], both[4+i])
	}
	result := run(t, cluster, inTurns)
	if result.Placed != 8 {
		t.Fatalf("%d of 8 members were placed: %+v", result.Placed, result.Refused)
	}
	started := map[string]float64{}
	for _, decision := range result.Decisions {
		gang := strings.Split(decision.Pod, "-")[0]
		if at, known := started[gang]; known && at != decision.At {
			t.Errorf("a member of %s starts at %v s, another at %v s", gang, decision.At, at)
		}
		started[gang] = decision.At
	}
	if diff := cmp.Diff(map[string]float64{"default/a": 0, "default/b": 3600}, started); diff != "" {
		t.Errorf("starts (-want +got):\n%s", diff)
	}
}

func TestHighPriorityEvictsAndOthersDoNot(t *testing.T) {
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 8))}
	tests := map[string]struct {
		priority string
		evicted  []simulate.Eviction
		// delay is how long the last job waits.
		delay float64
	}{
		"a high job takes the place of a low one, which starts over": {
			priority: "high", evicted: []simulate.Eviction{{Pod: "default/low-0", For: "default/late-0", At: 60}},
		},
		"a medium job waits until the low one has ended": {priority: "medium", delay: 3540},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			arrivals := append(jobs(t, cluster, 0, time.Hour, gang("low", "low", 1, 8)),
				jobs(t, cluster, time.Minute, time.Hour, gang("late", tc.priority, 1, 8))...)
			result := run(t, cluster, arrivals)
			if diff := cmp.Diff(tc.evicted, result.Evictions); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			last := result.Decisions[1]
			if result.Placed != 2 || last.Pod != "default/late-0" || last.At != 60+tc.delay {
				t.Errorf("decisions %+v, want late-0 second, after %v s", result.Decisions, tc.delay)
			}
			if again := result.Decisions[len(result.Decisions)-1]; tc.evicted != nil && (again.Pod != "default/low-0" || again.At != 3660) {
				t.Errorf("the last decision is %+v, want low-0 again at 3660 s", again)
			}
		})
	}
}

func TestAPodOfTheClusterThatIsEvictedWaits(t *testing.T) {
	cluster := simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(1, 8))}
	low := jobs(t, cluster, 0, 0, gang("low", "low", 1, 8))[0].Pod
	low.Spec.NodeName = "n0"
	cluster.Pods = append(cluster.Pods, low)
	result := run(t, cluster, jobs(t, cluster, 0, 0, gang("high", "high", 1, 8)))
	if result.Placed != 1 || len(result.Evictions) != 1 || len(result.Refused) != 1 || result.AllocatedGPUs != 8 {
		t.Errorf("result %+v", result)
	}
}

func TestAnUnknownPriorityIsAnError(t *testing.T) {
	_, err := simulate.ParseWorkload("pod.yaml", []byte("{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {priorityClassName: odd}}"), simulate.Cluster{})
	if err == nil || !strings.Contains(err.Error(), "PriorityClass odd") {
		t.Errorf("error %v", err)
	}
}

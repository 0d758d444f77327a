package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/simulate"
)

// largeJob is one that takes several whole nodes of a pool for half an hour.
type largeJob struct {
	name, pool string
	nodes      int
	comes      time.Duration
}

// lines are two pools of 20 and 10 nodes, small jobs of one node that ask for a fifth more than there is from the time at which the
// first large one comes, and the large ones.
type lines struct {
	cluster   simulate.Cluster
	large     []largeJob
	arrivals  []simulate.Arrival
	lifetimes map[string]time.Duration
}

func linesOf(t *testing.T, large ...largeJob) *lines {
	t.Helper()
	l := &lines{cluster: simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(30, 8))}, large: large, lifetimes: map[string]time.Duration{}}
	for i, node := range l.cluster.Nodes {
		node.Labels[names.LabelPool] = "big"
		if i%3 == 2 {
			node.Labels[names.LabelPool] = "little"
		}
	}
	random := rand.New(rand.NewPCG(9, 9))
	waiting := large
	for i, at := 0, time.Duration(0); at < streamEnds; i++ {
		for len(waiting) > 0 && waiting[0].comes <= at {
			job := waiting[0]
			l.add(t, job.comes, 30*time.Minute, time.Hour, job.pool, gang(job.name, "medium", job.nodes, 8))
			waiting = waiting[1:]
		}
		limit, pool := time.Duration(10*(2+random.IntN(5)))*time.Minute, "big"
		if i%3 == 2 {
			pool = "little"
		}
		l.add(t, at, limit, limit, pool, fmt.Sprintf("kind: training\nversion: v0.1\njob: {name: small%d, priority: medium}\n"+
			"environment: {image: i, command: [run]}\nresources: {pool: default, gpu: 8}\n", i))
		if at += 66 * time.Second; at < large[0].comes {
			at += 30 * time.Second
		}
	}
	return l
}

func (l *lines) add(t *testing.T, at, lifetime, limit time.Duration, pool, document string) {
	t.Helper()
	document = strings.Replace(document, "resources: {pool: default", "resources: {time-limit: "+limit.String()+", pool: "+pool, 1)
	for _, arrival := range jobs(t, l.cluster, at, lifetime, document) {
		arrival.Pod.CreationTimestamp = metav1.NewTime(noon.Add(at))
		if arrival.Group != nil {
			arrival.Group.CreationTimestamp = arrival.Pod.CreationTimestamp
		}
		l.arrivals = append(l.arrivals, arrival)
		l.lifetimes["default/"+arrival.Pod.Name] = lifetime
	}
}

// replay says how long each large job waited, and how much of the cluster was busy until the stream ended.
func (l *lines) replay(t *testing.T, horizon time.Duration) (waited map[string]time.Duration, busy float64) {
	t.Helper()
	candidate := shipped(t)
	for _, profile := range candidate.Config.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*configv1.GPUFilterArgs); ok {
				args.PromiseHorizon = &metav1.Duration{Duration: horizon}
			}
		}
	}
	result, err := simulate.Run(t.Context(), l.cluster, l.arrivals, candidate, simulate.Options{Start: noon})
	if err != nil {
		t.Fatal(err)
	}
	waited = map[string]time.Duration{}
	var used time.Duration
	for _, decision := range result.Decisions {
		from := time.Duration(decision.At * float64(time.Second))
		used += max(0, min(from+l.lifetimes[decision.Pod], streamEnds)-from)
		for _, job := range l.large {
			if strings.HasPrefix(decision.Pod, "default/"+job.name+"-") {
				waited[job.name] = from - job.comes
			}
		}
	}
	return waited, used.Hours() / (float64(len(l.cluster.Nodes)) * streamEnds.Hours())
}

// TestLargeJobsOfSeveralLinesStart: in each pool one after the other, none of them starves, and the nodes are used meanwhile.
func TestLargeJobsOfSeveralLinesStart(t *testing.T) {
	l := linesOf(t,
		largeJob{"large-a", "big", 16, time.Hour}, largeJob{"large-b", "little", 5, time.Hour}, largeJob{"large-c", "big", 6, 90 * time.Minute},
	)
	with, busy := l.replay(t, 24*time.Hour)
	without, full := l.replay(t, 0)
	t.Logf("waited %v, without promises %v; busy %.1f %% and %.1f %%", with, without, 100*busy, 100*full)
	for _, job := range l.large {
		waited, started := with[job.name]
		if most := time.Hour + slack; !started || waited > most { // who runs when it is first in line has ended by then
			t.Errorf("%s waited %s, want %s at most", job.name, waited, most)
		}
		if starved, started := without[job.name]; started && starved < 3*waited {
			t.Errorf("%s waited %s, and without a promise %s: the test does not bite", job.name, waited, starved)
		}
	}
	if full-busy > 0.02 {
		t.Errorf("%.1f %% of the nodes were busy, %.1f %% without promises", 100*busy, 100*full)
	}
}

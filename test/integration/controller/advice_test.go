package controller

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

var situations = flag.Int("situations", 4, "how many random situations TestFollowingTheAdviceStartsWhatItSays goes through")

// TestFollowingTheAdviceStartsWhatItSays fills pools, has jobs wait for them, and adds the nodes that the advice asks for: with
// one less some job goes on waiting, with all of them none does.
func TestFollowingTheAdviceStartsWhatItSays(t *testing.T) {
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	for i := range *situations {
		var jobs []clustertest.Job
		for k := range 1 + random.IntN(5) {
			j := clustertest.Job{Name: fmt.Sprintf("w%d", k), GPUs: 1 << random.IntN(4)}
			if random.IntN(2) == 0 {
				j.GPUs, j.Nodes = 4+4*random.IntN(2), 2+random.IntN(4)
			}
			jobs = append(jobs, j)
		}
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			t.Parallel()
			newEnv(t).follow(jobs)
		})
	}
}

func (e *env) follow(jobs []clustertest.Job) {
	e.Helper()
	e.Start(clustertest.Job{Name: "holder", GPUs: 8, Nodes: nodesPerPool})
	if err := e.applyPool("{}"); err != nil {
		e.Fatal(err)
	}
	for _, j := range jobs {
		e.Submit(j)
	}
	var advice *names.CapacityAdvice
	// Pools take turns, and the first advice may be about jobs whose pods are not all there yet.
	e.Within(3*clustertest.Patience, "advice that starts all jobs", func(context.Context) (bool, error) {
		advice = e.poolStatus().Advice
		return advice != nil && len(advice.Options) > 0 && int(advice.Options[len(advice.Options)-1].Jobs) == len(jobs), nil
	})
	e.Log(advice.Text)
	best := advice.Options[len(advice.Options)-1]
	if best.Nodes > 1 {
		e.add("less", int(best.Nodes)-1)
	}
	e.Stays("with one node less some job waits: "+advice.Text, 3*time.Second, func() bool { return e.waits(jobs) > 0 })
	e.add("more", 1)
	e.Eventually("all jobs to run", func(context.Context) (bool, error) { return e.waits(jobs) == 0, nil })
	e.poolShows("that there is nothing to advise", func(s names.GPUPoolStatus) bool { return s.Advice == nil && s.Pending.Jobs == 0 })
}

// waits is how many of the jobs do not run whole.
func (e *env) waits(jobs []clustertest.Job) int {
	return len(slices.DeleteFunc(slices.Clone(jobs), func(j clustertest.Job) bool { return len(e.History.Running(j.Name)) == max(j.Nodes, 1) }))
}

// add makes nodes like those of the pool.
func (e *env) add(prefix string, count int) {
	e.Helper()
	group := clustertest.NodesWith8GPUs(e.Pool+"-"+prefix, count)
	group.Pool, group.Zone = e.Pool, e.Pool
	err := cluster.CreateFleet(e.Context(), sandbox.Fleet{Groups: []sandbox.NodeGroup{group}})
	if err != nil {
		e.Fatal(err)
	}
}

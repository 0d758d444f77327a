package controller

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

var situations = flag.Int("situations", 4, "how many random situations TestFollowingTheAdviceStartsWhatItSays goes through")

// TestFollowingTheAdviceStartsWhatItSays fills pools, has jobs wait for them, and adds the nodes that the advice asks for: with
// one less some job goes on waiting, with all of them none does.
func TestFollowingTheAdviceStartsWhatItSays(t *testing.T) {
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 1))
	for i := range *situations {
		var jobs []job
		for k := range 1 + random.IntN(5) {
			j := job{name: fmt.Sprintf("w%d", k), gpus: 1 << random.IntN(4)}
			if random.IntN(2) == 0 {
				j.gpus, j.nodes = 4+4*random.IntN(2), 2+random.IntN(4)
			}
			jobs = append(jobs, j)
		}
		t.Run(fmt.Sprintf("%02d", i), func(t *testing.T) {
			t.Parallel()
			newEnv(t).follow(jobs)
		})
	}
}

func (e *env) follow(jobs []job) {
	e.Helper()
	e.start(job{name: "holder", gpus: gpusPerNode, nodes: nodesPerPool})
	if err := e.applyPool("{}"); err != nil {
		e.Fatal(err)
	}
	for _, j := range jobs {
		e.submit(j)
	}
	var advice *names.CapacityAdvice
	// Pools take turns, and the first advice may be about jobs whose pods are not all there yet.
	e.within(3*patience, "advice that starts all jobs", func(context.Context) (bool, error) {
		advice = e.poolStatus().Advice
		return advice != nil && len(advice.Options) > 0 && int(advice.Options[len(advice.Options)-1].Jobs) == len(jobs), nil
	})
	e.Log(advice.Text)
	best := advice.Options[len(advice.Options)-1]
	if best.Nodes > 1 {
		e.add("less", int(best.Nodes)-1)
	}
	e.stays("with one node less some job waits: "+advice.Text, 3*time.Second, func() bool { return e.waits(jobs) > 0 })
	e.add("more", 1)
	e.eventually("all jobs to run", func(context.Context) (bool, error) { return e.waits(jobs) == 0, nil })
	e.poolShows("that there is nothing to advise", func(s names.GPUPoolStatus) bool { return s.Advice == nil && s.Pending.Jobs == 0 })
}

// waits is how many of the jobs do not run whole.
func (e *env) waits(jobs []job) int {
	return len(slices.DeleteFunc(slices.Clone(jobs), func(j job) bool { return len(e.history.running(j.name)) == max(j.nodes, 1) }))
}

// add makes nodes like those of the pool.
func (e *env) add(prefix string, count int) {
	e.Helper()
	err := cluster.CreateFleet(e.Context(), sandbox.Fleet{Groups: []sandbox.NodeGroup{{
		NamePrefix: e.pool + "-" + prefix, Pool: e.pool, Zone: e.pool, Count: count,
		GPUsPerNode: gpusPerNode, GPUType: "A100-80G", Interconnect: "nvlink", GPUMemory: resource.MustParse("80Gi"),
		CPU: resource.MustParse("64"), Memory: resource.MustParse("512Gi"), Pods: 110,
	}}})
	if err != nil {
		e.Fatal(err)
	}
}

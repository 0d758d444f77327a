package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

// What may be moved: the share of the running pods in an hour, and how many for one that waits.
const (
	movedInAnHour = 0.01
	movesForOne   = 16
)

// churnWithMoves prints what FGD and ours make of the default trace when pods also leave, without moves and with them.
func churnWithMoves(out io.Writer, seeds int) error {
	nodes, pods, err := readDefault()
	if err != nil {
		return err
	}
	lifetime := meanLifetime(pods)
	fmt.Fprintf(out, "The mean lifetime is %.1f h.\n\n", lifetime.Hours())
	fmt.Fprintln(out, "| policy | moves | allocated % | accepted % of the pods of 8 GPUs | pods helped in a lifetime | "+
		"moves for one | GPUs moved for each that started | moved % of the running pods in an hour |\n|---|---|---|---|---|---|---|---|")
	for _, name := range []string{"FGD", ours} {
		allowed := &placement.Moves{PerPod: movesForOne, Share: movedInAnHour, Period: time.Hour.Hours() / lifetime.Hours()}
		for _, moves := range []*placement.Moves{nil, allowed} {
			mean := meanOf(nodes, pods, name, seeds, moves)
			fmt.Fprintf(out, "| %s | %s |%s\n", name, map[bool]string{false: "no", true: "yes"}[moves != nil], mean.row(lifetime))
		}
	}
	return nil
}

// meanLifetime is that of the pods of a trace.
func meanLifetime(pods []trace.Pod) time.Duration {
	sum := time.Duration(0)
	for i := range pods {
		sum += (pods[i].Deleted - pods[i].Created) / time.Duration(len(pods))
	}
	return sum
}

// churned is what came of several seeds together.
type churned struct {
	seeds               float64
	allocated, accepted float64
	moved               placement.Moved
}

// meanOf runs all seeds, as many at a time as there are processors.
func meanOf(nodes []trace.Node, pods []trace.Pod, name string, seeds int, moves *placement.Moves) churned {
	policy := policies[slices.IndexFunc(policies, func(p policy) bool { return p.name == name })]
	results := make([]placement.ChurnResult, seeds)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	for i := range results {
		slots <- struct{}{}
		running.Go(func() {
			seed := int64(firstSeed + i)
			run := placement.Churn{Load: 1, WarmUp: warmUp, Measured: measured, Seed: seed, Moves: moves}
			results[i] = run.Run(nodes, pods, policy.make(nodes, pods, seed))
			<-slots
		})
	}
	running.Wait()
	mean := churned{seeds: float64(seeds)}
	for i := range results {
		mean.add(&results[i])
	}
	return mean
}

func (c *churned) add(result *placement.ChurnResult) {
	c.allocated += result.Allocated / c.seeds
	c.accepted += result.Accepted / c.seeds
	c.moved.Pods += result.Moved.Pods
	c.moved.GPUs += result.Moved.GPUs
	c.moved.Moves += result.Moved.Moves
	c.moved.Milli += result.Moved.Milli
	c.moved.Share += result.Moved.Share / c.seeds
}

func (c *churned) row(lifetime time.Duration) string {
	text := fmt.Sprintf(" %.2f | %.1f |", c.allocated, c.accepted)
	if c.moved.Pods == 0 {
		return text + " – | – | – | – |"
	}
	pods := float64(c.moved.Pods)
	return text + fmt.Sprintf(" %.0f | %.1f | %.2f | %.2f |", pods/c.seeds/measured, float64(c.moved.Moves)/pods,
		float64(c.moved.Milli)/trace.MilliPerGPU/float64(c.moved.GPUs), 100*c.moved.Share/lifetime.Hours())
}

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

// How long a run with departures goes, in mean lifetimes: the cluster is as full as it gets after about three.
const (
	warmUp   = 3
	measured = 5
)

// churnSeeds is how many seeds the page has of a trace, and uniformSeeds of the uniform cluster, which is small.
const (
	churnSeeds   = 5
	uniformSeeds = 100
)

// packing is compared where pods ask for whole GPUs, for which it is meant.
var packing = policy{"Pack", func([]trace.Node, []trace.Pod, int64) placement.Policy { return placement.Pack{} }}

// keepsNone is ours where each pod that fits is placed, as the other policies place them.
var keepsNone = policy{ours + ", keeps none whole", leastFragmentation(0)}

// departures are the tables of what comes of it when pods also leave: by policy, and where all pods ask for whole GPUs.
type departures struct{ published, whole string }

// workload is pods drawn from a trace, on some nodes.
type workload struct {
	nodes []trace.Node
	pods  []trace.Pod
	seeds int
	// first is the first seed.
	first int64
	// warmUp is how many mean lifetimes pass before anything is measured.
	warmUp float64
}

// run returns what a policy makes of the workload on average, when pods also leave, and the standard errors.
func (w *workload) run(p policy, load float64) (mean, deviation placement.ChurnResult) {
	var allocated, accepted, refused []float64
	for i := range w.seeds {
		seed := w.first + int64(i)
		run := placement.Churn{Load: load, WarmUp: w.warmUp, Measured: measured, Seed: seed}
		result := run.Run(w.nodes, w.pods, p.make(w.nodes, w.pods, seed))
		allocated, accepted, refused = append(allocated, result.Allocated), append(accepted, result.Accepted), append(refused, result.Refused)
	}
	mean.Allocated, deviation.Allocated = standardError(allocated)
	mean.Accepted, deviation.Accepted = standardError(accepted)
	mean.Refused, deviation.Refused = standardError(refused)
	return mean, deviation
}

// standardError returns the mean of some values, and how far it may be off.
func standardError(values []float64) (mean, off float64) {
	mean, deviation := spread(values)
	return mean, deviation / math.Sqrt(float64(len(values)))
}

// churn prints what the policies make of the default trace when pods also leave, and of pods that ask for whole GPUs.
func churn(out io.Writer, seeds int, after float64) error {
	nodes, pods, err := readDefault()
	if err != nil {
		return err
	}
	tables := leave(&workload{nodes, pods, seeds, firstSeed, after})
	_, err = fmt.Fprintf(out, "%s\n%s", tables.published, tables.whole)
	return err
}

func leave(w *workload) departures { return departures{churnTable(w), wholeTable(w)} }

// churnTable shows what the policies make of a trace, with as many GPUs asked for as there are.
func churnTable(w *workload) string {
	var text strings.Builder
	text.WriteString("| policy | allocated % | accepted % of the pods of 8 GPUs | refused % of all pods, though they fit |\n" +
		"|---|---|---|---|\n")
	for _, policy := range append(slices.Clip(policies), keepsNone) {
		result, deviation := w.run(policy, 1)
		fmt.Fprintf(&text, "| %s | %.2f | %.1f ± %.1f | %.2f |\n", policy.name,
			result.Allocated, result.Accepted, deviation.Accepted, result.Refused)
	}
	return text.String()
}

// wholeTable shows how many pods of 8 GPUs find no node where all ask for whole GPUs: those of a trace, on its nodes, and
// pods of 1, 2, 4 and 8 GPUs on nodes that are all alike.
func wholeTable(w *workload) string {
	var whole []trace.Pod
	for i := range w.pods {
		if w.pods[i].MilliGPU == trace.MilliPerGPU {
			whole = append(whole, w.pods[i])
		}
	}
	workloads := []struct {
		name string
		workload
	}{{"of the trace", workload{w.nodes, whole, w.seeds, firstSeed, w.warmUp}},
		{"alike", workload{alike(), powersOfTwo(), uniformSeeds, firstSeed, w.warmUp}}}
	var text strings.Builder
	text.WriteString("| load % | nodes | Pack | " + ours + " |\n|---|---|---|---|\n")
	for _, load := range []float64{0.92, 0.97, 1, 1.05} {
		for i := range workloads {
			pack, packError := workloads[i].run(packing, load)
			least, leastError := workloads[i].run(policies[len(policies)-1], load)
			fmt.Fprintf(&text, "| %.0f | %s | %.1f ± %.1f | %.1f ± %.1f |\n", 100*load, workloads[i].name,
				100-pack.Accepted, packError.Accepted, 100-least.Accepted, leastError.Accepted)
		}
	}
	return text.String()
}

// alike returns 80 nodes of 8 GPUs.
func alike() []trace.Node {
	nodes := make([]trace.Node, 80)
	for i := range nodes {
		nodes[i] = trace.Node{Name: fmt.Sprintf("node-%02d", i), GPUs: placement.MaxGPUs, MilliCPU: 96_000, MemoryMiB: 768 << 10}
	}
	return nodes
}

// powersOfTwo returns pods of which each size asks for as many GPUs, and CPU and memory as it has a share of a node.
func powersOfTwo() []trace.Pod {
	var pods []trace.Pod
	for gpus := int64(1); gpus <= placement.MaxGPUs; gpus *= 2 {
		for range placement.MaxGPUs / gpus {
			pods = append(pods, trace.Pod{
				GPUs: gpus, MilliGPU: trace.MilliPerGPU, MilliCPU: gpus * 12_000, MemoryMiB: gpus * 96 << 10,
			})
		}
	}
	return pods
}

// Command bench-placement runs the published placement benchmark with the policies that it compares and with ours, and
// writes docs/benchmarks/placement.md and its plot.
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
	"g8s.host/gpu-scheduler/test/bench/placement"
)

const (
	firstSeed    = 42
	kept         = "pkg/simulate/trace/testdata"
	nodeList     = "openb_node_list_gpu_node.csv"
	listPrefix   = "openb_pod_list_"
	defaultTrace = "default"
	ours         = "LeastFragmentation"
)

// policy is one that is compared. Each run has one of its own.
type policy struct {
	name string
	make func(nodes []trace.Node, pods []trace.Pod, seed int64) placement.Policy
}

// policies are those of the benchmark, ours last.
var policies = []policy{
	{"Random", func(_ []trace.Node, _ []trace.Pod, seed int64) placement.Policy {
		return placement.Random{Source: rand.New(rand.NewSource(seed))} //nolint:gosec // it has to be the same each time
	}},
	{"DotProd", func([]trace.Node, []trace.Pod, int64) placement.Policy { return placement.DotProduct{} }},
	{"Clustering", func([]trace.Node, []trace.Pod, int64) placement.Policy { return placement.Clustering{} }},
	{"Packing", func([]trace.Node, []trace.Pod, int64) placement.Policy { return placement.Packing{} }},
	{"BestFit", func([]trace.Node, []trace.Pod, int64) placement.Policy { return placement.BestFit{} }},
	{"FGD", func(_ []trace.Node, pods []trace.Pod, _ int64) placement.Policy {
		return placement.FragmentationGradientDescent{Workload: placement.NewWorkload(pods)}
	}},
	{ours, leastFragmentation(int64(configv1.DefaultKeepWholePerMille))},
}

// leastFragmentation is ours, with so many in a thousand of the nodes for the largest pods kept whole.
func leastFragmentation(perMille int64) func([]trace.Node, []trace.Pod, int64) placement.Policy {
	return func(nodes []trace.Node, _ []trace.Pod, _ int64) placement.Policy {
		return placement.NewLeastFragmentation(nodes, perMille)
	}
}

// outcome is what the policies made of one trace: for each policy the series of each seed.
type outcome struct {
	trace  string
	series map[string][]trace.Series
}

func main() {
	seeds := flag.Int("seeds", 10, "How many seeds, from 42 on")
	traces := flag.String("traces", "", "Folder with more pod lists, openb_pod_list_*.csv (default: the default trace alone)")
	out := flag.String("out", "docs/benchmarks", "Folder to write to; - prints the tables")
	leaving := flag.Bool("churn", false, "Print only the tables of what comes of it when pods also leave")
	moves := flag.Bool("moves", false, "With -churn: without and with moves of running pods, and what they take")
	after := flag.Float64("warm-up", warmUp, "How many mean lifetimes to let pass before measuring, with -churn")
	keep := flag.String("keep", "", "With -churn: ours alone, on each trace, by keepWholePerMille, such as 0,4")
	first := flag.Int64("first-seed", firstSeed, "The first seed, with -churn -keep and -worst")
	worst := flag.Bool("worst", false, "Print only the mean and the worst seed of each variant of the default trace")
	flag.Parse()
	benchmark := func() error { return run(*seeds, *traces, *out) }
	if *leaving {
		benchmark = func() error { return churn(os.Stdout, *seeds, *after) }
	}
	if *leaving && *keep != "" {
		benchmark = func() error {
			return keepSettings(os.Stdout, *traces, *keep, workload{seeds: *seeds, first: *first, warmUp: *after})
		}
	}
	if *worst {
		benchmark = func() error { return worstSeeds(os.Stdout, *seeds, *first) }
	}
	if *leaving && *moves {
		benchmark = func() error { return churnWithMoves(os.Stdout, *seeds) }
	}
	if err := benchmark(); err != nil {
		fmt.Fprintln(os.Stderr, "bench-placement:", err)
		os.Exit(1)
	}
}

// readDefault reads the nodes and the trace that the repository has.
func readDefault() ([]trace.Node, []trace.Pod, error) {
	nodes, err := trace.LoadNodes(filepath.Join(kept, nodeList+".gz"))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the nodes: %w", err)
	}
	pods, err := trace.LoadPods(filepath.Join(kept, listPrefix+defaultTrace+".csv.gz"))
	if err != nil {
		return nil, nil, fmt.Errorf("reading a trace: %w", err)
	}
	return nodes, pods, nil
}

// podList is the pods of a trace, and what it is called.
type podList struct {
	name string
	pods []trace.Pod
}

// readTraces reads the nodes, the default trace, and the others in a folder, if one is given.
func readTraces(folder string) ([]trace.Node, []podList, error) {
	nodes, pods, err := readDefault()
	if err != nil {
		return nil, nil, err
	}
	traces := []podList{{defaultTrace, pods}}
	var paths []string
	if folder != "" {
		if paths, err = filepath.Glob(filepath.Join(folder, listPrefix+"*.csv*")); err != nil {
			return nil, nil, fmt.Errorf("looking for traces in %s: %w", folder, err)
		}
	}
	done := map[string]bool{defaultTrace: true}
	for _, path := range paths {
		name := strings.TrimPrefix(strings.SplitN(filepath.Base(path), ".", 2)[0], listPrefix)
		if done[name] {
			continue
		}
		done[name] = true
		if pods, err = trace.LoadPods(path); err != nil {
			return nil, nil, fmt.Errorf("reading a trace: %w", err)
		}
		traces = append(traces, podList{name, pods})
	}
	return nodes, traces, nil
}

func run(seeds int, folder, out string) error {
	nodes, traces, err := readTraces(folder)
	if err != nil {
		return err
	}
	var outcomes []outcome
	for _, pods := range traces {
		outcomes = append(outcomes, outcome{pods.name, replay(nodes, pods.pods, seeds)})
		fmt.Fprintln(os.Stderr, "replayed", pods.name)
	}
	fmt.Fprintln(os.Stderr, "letting pods leave")
	departures := leave(&workload{nodes, traces[0].pods, churnSeeds, firstSeed, warmUp})
	return report(outcomes, &departures, seeds, out)
}

// replay runs every policy on every seed, as many at a time as there are processors.
func replay(nodes []trace.Node, pods []trace.Pod, seeds int) map[string][]trace.Series {
	series := map[string][]trace.Series{}
	for _, policy := range policies {
		series[policy.name] = make([]trace.Series, seeds)
	}
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var running sync.WaitGroup
	for i := range seeds {
		seed := int64(firstSeed + i)
		arrivals := trace.DrawArrivals(nodes, pods, trace.Inflation, seed)
		for _, policy := range policies {
			slots <- struct{}{}
			into := series[policy.name]
			running.Go(func() {
				into[i] = placement.Fill(arrivals, policy.make(nodes, pods, seed))
				<-slots
			})
		}
	}
	running.Wait()
	return series
}

// Command bench-strategies places a workload of whole GPUs through the real plugins, once by each strategy of GPUScore,
// and writes docs/benchmarks/strategies.md: how many jobs of 8 GPUs each refuses, and how much it allocates.
package main

import (
	"bytes"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"text/template"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/manifests"
	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme" // for the arguments of the plugins
	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/simulate/trace"
)

const (
	firstSeed = 42
	kept      = "pkg/simulate/trace/testdata"
	nodeList  = "openb_node_list_gpu_node.csv.gz"
	podList   = "openb_pod_list_default.csv.gz"
	// large is how many GPUs a job asks for that needs a node of its own.
	large = 8
)

// strategies are compared, ours first. Jobs of this trace have no type, so one strategy places all.
var strategies = []configv1.Strategy{configv1.LeastFragmentation, configv1.Pack, configv1.Spread, configv1.TargetBandStrategy}

// loads are at which shares of all GPUs, in percent, the jobs are counted that had come until then.
var loads = []int{92, 95, 100, 105}

//go:embed strategies.md.tmpl
var page string

func main() {
	seeds := flag.Int("seeds", 5, "How many seeds, from 42 on")
	out := flag.String("out", "docs/benchmarks/strategies.md", "File to write; - prints it")
	flag.Parse()
	klog.SetLogger(logr.Discard()) // what fails is returned
	if err := run(context.Background(), *seeds, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench-strategies:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, seeds int, out string) error {
	nodes, err := trace.LoadNodes(filepath.Join(kept, nodeList))
	if err != nil {
		return fmt.Errorf("reading the nodes: %w", err)
	}
	pods, err := trace.LoadPods(filepath.Join(kept, podList))
	if err != nil {
		return fmt.Errorf("reading the pods: %w", err)
	}
	pods = wholeGPUs(pods)
	results := newReport(seeds, len(nodes), int(trace.TotalCapacity(nodes)/trace.MilliPerGPU), len(pods))
	for seed := range seeds {
		arrivals := trace.DrawArrivals(nodes, pods, float64(loads[len(loads)-1]+1)/100, firstSeed+int64(seed))
		for _, strategy := range strategies {
			fmt.Fprintf(os.Stderr, "seed %d, %s\n", firstSeed+seed, strategy)
			tallies, err := place(ctx, arrivals, strategy)
			if err != nil {
				return fmt.Errorf("placing by %s: %w", strategy, err)
			}
			results.add(strategy, tallies)
		}
	}
	var text bytes.Buffer
	if err := template.Must(template.New("page").Parse(page)).Execute(&text, results); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	if out == "-" {
		_, err = os.Stdout.Write(text.Bytes())
		return err
	}
	return os.WriteFile(out, text.Bytes(), 0o644) //nolint:gosec // a page to read
}

// wholeGPUs leaves out pods without GPUs and those that share one.
func wholeGPUs(pods []trace.Pod) []trace.Pod {
	var whole []trace.Pod
	for _, pod := range pods {
		if pod.GPUs > 0 && pod.MilliGPU == trace.MilliPerGPU {
			whole = append(whole, pod)
		}
	}
	return whole
}

// place runs the jobs of a seed through kube-scheduler and our plugins, and counts at each load.
func place(ctx context.Context, arrivals trace.Arrivals, strategy configv1.Strategy) ([]tally, error) {
	data, err := manifests.FS.ReadFile("scheduler/scheduler-config.yaml")
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	cfg, err := simulate.ParseConfig(data)
	if err != nil {
		return nil, err
	}
	policy := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nstrategy: " + string(strategy) + "\n"
	if err := simulate.SetPolicy(cfg, []byte(policy)); err != nil {
		return nil, err
	}
	result, err := simulate.Run(ctx, simulate.Cluster{Nodes: simulate.NodesFromTrace(arrivals.Nodes)}, simulate.ArrivalsFromTrace(arrivals.Pods),
		simulate.Candidate{Name: string(strategy), Config: cfg}, simulate.Options{})
	if err != nil {
		return nil, err
	}
	return tallies(arrivals, result), nil
}

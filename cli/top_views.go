package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// usageReader returns a function that reads the usage of the whole cluster and selects a part of it.
func usageReader[T any](part func(usage.Usage) []T) func(context.Context, kubernetes.Interface, usage.Metrics) (topRows[T], error) {
	return func(ctx context.Context, client kubernetes.Interface, metrics usage.Metrics) (topRows[T], error) {
		all, unmeasured, err := usage.Read(ctx, client, metrics)
		return topRows[T]{Items: part(all), Total: &all.Total, unmeasured: unmeasured}, err
	}
}

// compareLoads compares utilizations, the highest first; unmeasured ones come last.
func compareLoads(a, b usage.Load) int {
	switch {
	case a.Utilization == nil && b.Utilization == nil:
		return 0
	case a.Utilization == nil:
		return 1
	case b.Utilization == nil:
		return -1
	}
	return cmp.Compare(*b.Utilization, *a.Utilization)
}

func newTopNodesCmd(f *Factory) *cobra.Command {
	type node = usage.Node
	v := &topView[node]{factory: f}
	v.read = usageReader(func(u usage.Usage) []node {
		return slices.DeleteFunc(u.Nodes, func(n node) bool { return v.pool != "" && n.Pool != v.pool })
	})
	v.columns = []column[node]{
		{header: "NODE", value: func(n node) string { return n.Name }},
		{header: "POOL", value: func(n node) string { return n.Pool }},
		{header: "GPU-TYPE", value: func(n node) string { return n.GPUType }},
		{header: "CARDS", value: func(n node) string { return cardMarks(n.Cells) }},
		{header: "HELD", value: func(n node) string { return fmt.Sprintf("%d/%d", n.Used, n.GPUs) }},
		{header: "FREE", value: func(n node) string { return strconv.FormatInt(n.Free, 10) }},
		{header: "MIG HELD", optional: true, value: func(n node) string { return migHeld(n.MIG) }},
		{header: "UTIL", text: func(n node) phrase.Text { return utilizationText(n.Load, n.GPUs) }},
		{header: "MEM-USED", value: func(n node) string { return memoryUsed(n.Load) }},
	}
	v.orderings = []ordering[node]{
		{"name", func(a, b node) int { return cmp.Compare(a.Name, b.Name) }},
		{"held", func(a, b node) int { return cmp.Compare(b.Used, a.Used) }},
		{"free", func(a, b node) int { return cmp.Compare(b.Free, a.Free) }},
		{"util", func(a, b node) int { return compareLoads(a.Load, b.Load) }},
	}
	cmd := &cobra.Command{
		Use: "nodes", Aliases: []string{"node", "no"}, Short: "Show the GPUs of each node",
		Example: "  gpuctl top nodes --pool training-pool --sort free",
	}
	v.addFlags(cmd)
	cmd.Flags().StringVar(&v.pool, "pool", "", "Only the nodes of this pool")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	return cmd
}

// cardMarks draws the GPUs of a node, one character each.
func cardMarks(states []usage.State) string {
	marks := map[usage.State]string{
		usage.Whole: "#", usage.Shared: "+", usage.Free: ".", usage.Unhealthy: "x", usage.Held: "?",
	}
	var out strings.Builder
	for _, state := range states {
		out.WriteString(marks[state])
	}
	return out.String()
}

func newTopGPUsCmd(f *Factory) *cobra.Command {
	type card = usage.GPU
	var node string
	v := &topView[card]{factory: f}
	v.read = usageReader(func(u usage.Usage) []card {
		return slices.DeleteFunc(slices.Concat(u.GPUs, u.Slices), func(c card) bool { return v.pool != "" && c.Pool != v.pool || node != "" && c.Node != node })
	})
	v.columns = []column[card]{
		{header: "NODE", value: func(c card) string { return c.Node }},
		{header: "GPU", value: cardName},
		{header: "GPU-TYPE", value: func(c card) string { return c.GPUType }},
		{header: "STATE", text: cardState},
		{header: "UTIL", text: func(c card) phrase.Text { return utilizationText(c.Load, 1) }},
		{header: "MEM-USED", value: func(c card) string { return memoryUsed(c.Load) }},
		{header: "MEMORY", value: func(c card) string { return formatMebibytes(c.MemoryMiB) }},
		{header: "UUID", wide: true, value: func(c card) string { return c.UUID }},
		{header: "HELD BY", value: func(c card) string { return holderNames(c.Holders) }},
	}
	v.orderings = []ordering[card]{
		{"name", func(a, b card) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index)) }},
		{"util", func(a, b card) int { return compareLoads(a.Load, b.Load) }},
	}
	cmd := &cobra.Command{
		Use: "gpus", Aliases: []string{"gpu"}, Short: "Show each GPU, who holds it and how busy it is",
		Example: "  gpuctl top gpus --node train-01",
	}
	v.addFlags(cmd)
	cmd.Flags().StringVar(&v.pool, "pool", "", "Only the GPUs of this pool")
	cmd.Flags().StringVar(&node, "node", "", "Only the GPUs of this node")
	_ = cmd.RegisterFlagCompletionFunc("pool", completePools(f))
	_ = cmd.RegisterFlagCompletionFunc("node", completeNodes(f))
	return cmd
}

// cardName returns the index of a GPU; for a MIG slice, the index of its GPU with the profile.
func cardName(c usage.GPU) string {
	if c.Profile != "" {
		return strconv.Itoa(c.Index) + "/" + c.Profile
	}
	return strconv.Itoa(c.Index)
}

// migHeld formats how many MIG slices of each profile are held, and their total.
func migHeld(all []inventory.ProfileCount) string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = fmt.Sprintf("%s %d/%d", p.Profile, p.Used, p.Allocatable)
	}
	return strings.Join(out, ", ")
}

// jobHoldings formats how many GPUs and which slices a job holds.
func jobHoldings(j usage.Job) string {
	if len(j.MIG) == 0 {
		return strconv.FormatInt(j.GPUs, 10)
	}
	var out []string
	if j.GPUs > 0 {
		out = append(out, strconv.FormatInt(j.GPUs, 10))
	}
	for _, p := range j.MIG {
		out = append(out, p.String())
	}
	return strings.Join(out, ", ")
}

func cardState(c usage.GPU) phrase.Text {
	switch c.State {
	case usage.Shared:
		return phrase.Textf("shared, %s given", formatMebibytes(c.SharedMiB))
	case usage.Unhealthy:
		return phrase.Textf("unhealthy: %s", c.Health)
	case usage.Held:
		return phrase.Textf("held?")
	case usage.Whole:
		return phrase.Textf("whole")
	case usage.Free:
		return phrase.Textf("free")
	}
	return phrase.Quote(string(c.State))
}

func formatMebibytes(mib int64) string {
	if mib == 0 {
		return ""
	}
	return fmt.Sprintf("%.0fGi", float64(mib)/1024)
}

// holderNames lists jobs, and pods that belong to none, without duplicates.
func holderNames(holders []usage.Holder) string {
	var out []string
	for _, holder := range holders {
		out = append(out, holder.Namespace+"/"+cmp.Or(holder.Job, holder.Pod))
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), ", ")
}

func newTopJobsCmd(f *Factory) *cobra.Command {
	type job = usage.Job
	var all bool
	v := &topView[job]{factory: f}
	v.read = func(ctx context.Context, client kubernetes.Interface, metrics usage.Metrics) (topRows[job], error) {
		namespace, err := f.currentNamespace()
		if err != nil {
			return topRows[job]{}, err
		}
		if all {
			namespace = ""
		}
		jobs, unmeasured, err := usage.ReadJobs(ctx, client, namespace, metrics)
		return topRows[job]{Items: jobs, unmeasured: unmeasured}, err
	}
	v.columns = []column[job]{
		{header: "NAMESPACE", value: func(j job) string { return j.Namespace }},
		{header: "JOB", value: func(j job) string { return j.Name }},
		{header: "KIND", value: func(j job) string { return j.Kind }},
		{header: "POOL", value: func(j job) string { return j.Pool }},
		{header: "GPUS", value: jobHoldings},
		{header: "UTIL", text: func(j job) phrase.Text { return utilizationText(j.Load, j.GPUs) }},
		{header: "MEM-USED", value: func(j job) string { return memoryUsed(j.Load) }},
		{header: "NODES", value: func(j job) string { return strings.Join(j.Nodes, ",") }},
	}
	v.orderings = []ordering[job]{
		{"name", func(a, b job) int { return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) }},
		{"gpus", func(a, b job) int { return cmp.Compare(b.GPUs, a.GPUs) }},
		{"util", func(a, b job) int { return compareLoads(a.Load, b.Load) }},
	}
	cmd := &cobra.Command{
		Use: "jobs", Aliases: []string{"job"}, Short: "Show the GPUs of each job that runs, and how busy they are",
		Example: "  gpuctl top jobs -A --sort gpus",
	}
	v.addFlags(cmd)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Show the jobs of all namespaces")
	return cmd
}

func newTopPoolsCmd(f *Factory) *cobra.Command {
	type pool = usage.Pool
	v := &topView[pool]{factory: f}
	v.read = func(ctx context.Context, client kubernetes.Interface, metrics usage.Metrics) (topRows[pool], error) {
		all, unmeasured, err := usage.Read(ctx, client, metrics)
		if err != nil {
			return topRows[pool]{}, err
		}
		all.WithMachines(usage.ReadMachines(ctx, client.CoreV1().RESTClient()))
		return topRows[pool]{Items: all.Pools, Total: &all.Total, unmeasured: unmeasured, note: machineNote(all.Pools)}, nil
	}
	v.columns = []column[pool]{
		{header: "POOL", value: func(p pool) string { return p.Name }},
		{header: "NODES", value: func(p pool) string { return strconv.Itoa(p.Nodes) }},
		{header: "GPUS", value: func(p pool) string { return strconv.FormatInt(p.GPUs, 10) }},
		{header: "HELD", value: func(p pool) string { return strconv.FormatInt(p.Used, 10) }},
		{header: "FREE", value: func(p pool) string { return strconv.FormatInt(p.Free, 10) }},
		{header: "MIG HELD", optional: true, value: func(p pool) string { return migHeld(p.MIG) }},
		{header: "UTIL", text: func(p pool) phrase.Text { return utilizationText(p.Load, p.GPUs) }},
		{header: "MEM-USED", value: func(p pool) string { return memoryUsed(p.Load) }},
		{header: "CPU-ASKED", value: func(p pool) string { return formatCores(p.CPU.Requested) + "/" + formatCores(p.CPU.Allocatable) }},
		{header: "CPU-USE", value: func(p pool) string { return usedText(p.Use.CPU, formatCores) }},
		{header: "RAM-ASKED", value: func(p pool) string {
			return formatGibibytes(p.Memory.Requested) + "/" + formatGibibytes(p.Memory.Allocatable)
		}},
		{header: "RAM-USE", value: func(p pool) string { return usedText(p.Use.Memory, formatGibibytes) }},
	}
	v.orderings = []ordering[pool]{
		{"name", func(a, b pool) int { return cmp.Compare(a.Name, b.Name) }},
		{"held", func(a, b pool) int { return cmp.Compare(b.Used, a.Used) }},
		{"free", func(a, b pool) int { return cmp.Compare(b.Free, a.Free) }},
		{"util", func(a, b pool) int { return compareLoads(a.Load, b.Load) }},
	}
	cmd := &cobra.Command{
		Use: "pools", Aliases: []string{"pool"}, Short: "Show the GPUs, the CPU and the memory of each pool with GPUs",
		Long: "Show the GPUs of each pool, and of the CPU and the memory (RAM) of its nodes with GPUs what pods ask for, of how\n" +
			"much. How much is in use is known where the cluster has a metrics-server (metrics.k8s.io).",
		Example: "  gpuctl top pools --sort free -w",
	}
	v.addFlags(cmd)
	return cmd
}

// usedText formats a measured amount.
func usedText(used *resource.Quantity, unit func(resource.Quantity) string) string {
	if used == nil {
		return "n/a"
	}
	return unit(*used)
}

// machineNote says why no CPU and memory usage was measured in any pool.
func machineNote(pools []usage.Pool) phrase.Text {
	for i := range pools {
		if pools[i].Use.Measured > 0 {
			return nil
		}
	}
	if len(pools) == 0 {
		return nil
	}
	return phrase.Textf("How much CPU and memory is in use is not known: ").Add(pools[0].Use.Message())
}

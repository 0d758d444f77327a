package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/usage"
)

type describeNodeOptions struct {
	factory    *Factory
	prometheus prometheusOptions
	output     *output
}

// nodeDetail is a node with its labels, its conditions and its pods.
type nodeDetail struct {
	inventory.Node
	// Load is the load of its GPUs, nil if no metrics source is configured.
	Load       *usage.Load            `json:"load,omitempty"`
	Labels     map[string]string      `json:"labels"`
	Conditions []corev1.NodeCondition `json:"conditions"`
	PodList    []inventory.NodePod    `json:"podList"`
}

func newDescribeNodeCmd(f *Factory) *cobra.Command {
	o := &describeNodeOptions{factory: f}
	cmd := &cobra.Command{
		Use:     "node NAME",
		Aliases: []string{"nodes"},
		Short:   "Show one node: its GPUs, and which pods hold them",
		Long: "Show one node: its GPUs, how busy they are where a Prometheus has DCGM's metrics of them, its labels and\n" +
			"conditions, and its pods.",
		Example: "  gpuctl describe node node-1",
		Args:    requireOneArg(phrase.Textf("the name of one node")),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDescribeNode(cmd.Context(), o, args[0])
		},
		ValidArgsFunction: completeNodes(f),
	}
	o.prometheus.addFlags(cmd.Flags())
	o.output = describeOutput(cmd)
	return cmd
}

// nodeLoad returns the load of a node's GPUs, or nil if no metrics source is configured.
func (o *describeNodeOptions) nodeLoad(ctx context.Context, name string) (*usage.Load, error) {
	read, err := o.prometheus.readLoads(ctx, o.factory)
	if err != nil || read == nil {
		return nil, err
	}
	for i := range read.Nodes {
		if read.Nodes[i].Name == name {
			return &read.Nodes[i].Load, nil
		}
	}
	return &usage.Load{}, nil // the node has no GPUs
}

func runDescribeNode(ctx context.Context, o *describeNodeOptions, name string) error {
	reader, cluster, err := o.factory.readFleet(ctx)
	if err != nil {
		return err
	}
	node, ok := cluster.FindNode(name)
	if !ok {
		return &notFoundError{
			what: phrase.Textf("node %q", name), near: suggestSimilarBy(name, cluster.Nodes, func(n *inventory.Node) string { return n.Name }),
		}
	}
	pods, err := reader.NodePods(ctx, name)
	if err != nil {
		return err
	}
	detail := nodeDetail{Node: node, Labels: node.Labels, Conditions: node.Conditions, PodList: pods}
	if detail.Load, err = o.nodeLoad(ctx, name); err != nil {
		return err
	}
	if o.output.format != "" {
		return writeEncoded(o.factory.IO.Out, o.output.format, detail)
	}
	return describeNode(newDescription(o.factory.IO), detail, o.factory.Now())
}

func describeNode(d *description, detail nodeDetail, now time.Time) error {
	node, pods := detail.Node, detail.PodList
	d.writeField("Name", node.Name)
	d.writeField("Status", nodeStatus(node))
	for _, state := range node.States {
		d.writeText("State", stateSentence(state, node.Ready, now))
	}
	d.writeField("Pool", node.Pool)
	d.writeField("Rack", node.Rack)
	d.writeField("GPU type", node.GPUType)
	d.writeFieldf("GPUs", "%s", gpuSentence(node.GPUs))
	if node.Slots != nil {
		d.writeFieldf("GPU slots", "%s", gpuSentence(node.Slots.GPUs).Addf(", each a part of a GPU (%s): a pod gets one", node.Slots.Sharing))
	}
	if node.SharedGPUs != nil {
		d.writeFieldf("Shared GPUs", "%s", gpuSentence(*node.SharedGPUs))
	}
	if detail.Load != nil {
		d.writeFieldf("Utilization", "%s", loadSentence(*detail.Load, node.GPUs.Allocatable))
	}
	describeBroken(d, node.Broken, now)
	d.writeLines("MIG", profileLines(node.MIG, d.language))
	if node.ShareablePerGPU == "" {
		d.writeField("Memory/GPU", node.MemoryPerGPU)
	} else {
		d.writeFieldf("Memory/GPU", "%s, of which shares can hold %s", node.MemoryPerGPU, node.ShareablePerGPU)
	}
	d.writeField("Link", node.Interconnect)
	d.writeFieldf("CPU", "%s", capacitySentence(node.CPU))
	d.writeFieldf("Memory", "%s", capacitySentence(node.Memory))
	d.writeField("Unreadable", strings.Join(node.InvalidPods, ", "))
	d.writeLines("Labels", labelLines(node.Labels))
	if err := describeConditions(d, node.Conditions, now); err != nil {
		return err
	}
	if err := describeSlices(d, node.Slices, pods); err != nil {
		return err
	}
	type pod = inventory.NodePod
	return describeRows(d, "Pods", pods, []column[pod]{
		{header: "NAMESPACE", value: func(p pod) string { return p.Namespace }},
		{header: "NAME", value: func(p pod) string { return p.Name }},
		{header: "JOB", value: func(p pod) string { return p.Job }},
		{header: "KIND", value: func(p pod) string { return p.Kind }},
		{header: "PHASE", value: func(p pod) string { return p.Phase }},
		{header: "GPUS", value: func(p pod) string { return formatNumber(p.GPUs) }},
	})
}

func labelLines(labels map[string]string) []string {
	out := make([]string, 0, len(labels))
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, key+"="+labels[key])
	}
	return out
}

// profileLines returns the MIG slices of a node or a pool, one line per profile.
func profileLines(all []inventory.ProfileCount, language phrase.Language) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = phrase.Textf("%s: %d, %d used, %d free", p.Profile, p.Allocatable, p.Used, p.Free).Localize(language)
	}
	return out
}

func describeConditions(d *description, all []corev1.NodeCondition, now time.Time) error {
	type condition = corev1.NodeCondition
	return describeRows(d, "Conditions", all, []column[condition]{
		{header: "TYPE", value: func(c condition) string { return string(c.Type) }},
		{header: "STATUS", value: func(c condition) string { return string(c.Status) }},
		{header: "AGE", value: func(c condition) string { return formatAge(now, c.LastTransitionTime.Time) }},
		{header: "REASON", value: func(c condition) string { return c.Reason }},
		{header: "MESSAGE", spill: true, value: func(c condition) string { return c.Message }},
	})
}

// describeSlices lists the MIG slices of a node, and the pod that holds each.
func describeSlices(d *description, all []gpu.Slice, pods []inventory.NodePod) error {
	holders := map[types.UID]string{}
	for i := range pods {
		holders[pods[i].UID] = pods[i].Namespace + "/" + pods[i].Name
	}
	return describeRows(d, "MIG slices", all, []column[gpu.Slice]{
		{header: "GPU", value: func(s gpu.Slice) string { return strconv.Itoa(s.GPU) }},
		{header: "PROFILE", value: func(s gpu.Slice) string { return s.Profile }},
		{header: "UUID", value: func(s gpu.Slice) string { return s.UUID }},
		{header: "HELD BY", value: func(s gpu.Slice) string {
			if s.Pod == "" {
				return ""
			}
			return cmp.Or(holders[s.Pod], phrase.Textf("a pod that has been deleted").Localize(d.language))
		}},
	})
}

// describeBroken lists the GPUs that must not be used, why, and what to do.
func describeBroken(d *description, broken []inventory.BrokenGPU, now time.Time) {
	for i := range broken {
		b := &broken[i]
		d.writeWrappedField("Broken", phrase.Textf("GPU %d (%s) %s%s: %s", b.Index, b.UUID, b.Message, sinceText(b.Since, now), b.Advice).Localize(d.language))
	}
}

// sinceText says how long a state has lasted, or "" if that is unknown.
func sinceText(at, now time.Time) phrase.Text {
	if at.IsZero() {
		return nil
	}
	return phrase.Textf(", since %s", momentText(at, now))
}

func gpuSentence(g inventory.GPUs) phrase.Text {
	text := phrase.Textf("%d, %d used, %d free", g.Allocatable, g.Used, g.Free)
	if g.Unhealthy > 0 {
		text = text.Addf(", %d unhealthy", g.Unhealthy)
	}
	return text
}

func capacitySentence(c inventory.Capacity) phrase.Text {
	return phrase.Textf("%s, %s requested (%s)", c.Allocatable.String(), c.Requested.String(), requestedPercent(c))
}

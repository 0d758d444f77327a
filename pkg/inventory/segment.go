package inventory

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/snapshot"
	"g8s.host/gpu-scheduler/pkg/topology"
)

// Segment is some members of a job on several nodes that are to lie in one domain of the topology.
type Segment struct {
	// First and Last are the ranks of its members.
	First int `json:"first"`
	Last  int `json:"last"`
	// Domains are the domains of its pods: one if it is kept together, and none before it has places.
	Domains []string `json:"domains,omitempty"`
}

// FillSegments fills in the domains of the segments of a job, each with that many members, if the user may read nodes.
func (r *Reader) FillSegments(ctx context.Context, job *JobDetail, size int, level string) error {
	var nodes []string
	for i := range job.Pods {
		if pod := &job.Pods[i]; pod.Node != "" && !pod.hasEnded() {
			nodes = append(nodes, pod.Node)
		}
	}
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	read := &snapshot.Snapshot{}
	if len(nodes) > 0 {
		var err error
		if read, err = snapshot.Read(ctx, r.client, snapshot.NodesNamed(nodes...).IfAllowed()); err != nil {
			return err
		}
	}
	job.FillSegments(size, level, read.Nodes)
	return nil
}

// FillSegments fills in the domains of the segments of a job, each with that many members, by the known nodes. If the job is on nodes and none is known, it
// fills in nothing.
func (d *JobDetail) FillSegments(size int, level string, nodes []corev1.Node) {
	if size < 1 || len(nodes) == 0 && slices.ContainsFunc(d.Pods, func(p Pod) bool { return p.Node != "" && !p.hasEnded() }) {
		return
	}
	lie := make(map[string]topology.Node, len(d.Pods))
	for i := range d.Pods {
		lie[d.Pods[i].Node] = topology.Node{}
	}
	for i := range nodes {
		if _, of := lie[nodes[i].Name]; of {
			lie[nodes[i].Name] = topology.Node{Name: nodes[i].Name, Labels: nodes[i].Labels}
		}
	}
	d.Segments = divideRanks(d, size, level, lie)
}

// maxRanks is how many members a gang has at most.
const maxRanks = 10_000

// divideRanks divides the ranks of a job into segments.
func divideRanks(job *JobDetail, size int, level string, lie map[string]topology.Node) []Segment {
	ranks := min(int(job.Desired), maxRanks)
	segments := make([]Segment, (ranks+size-1)/size)
	for i := range segments {
		segments[i] = Segment{First: i * size, Last: min((i+1)*size, ranks) - 1}
	}
	for i := range job.Pods {
		pod := &job.Pods[i]
		node, known := lie[pod.Node]
		if !known || pod.hasEnded() || pod.Rank == nil || *pod.Rank < 0 || *pod.Rank >= ranks {
			continue
		}
		of := &segments[*pod.Rank/size]
		if domain := topology.DomainOf(level, node.Labels); domain != "" && !slices.Contains(of.Domains, domain) {
			of.Domains = append(of.Domains, domain)
		}
	}
	for i := range segments {
		slices.Sort(segments[i].Domains)
	}
	return segments
}

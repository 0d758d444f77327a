package gpuscore

import (
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle"
)

// replicaCount counts the replicas of each job by node. It follows the snapshot: the pods of a changed node are read again, and the other nodes
// cost a comparison. The zero value is empty. Only one goroutine uses it.
type replicaCount struct {
	all         []fwk.NodeInfo
	generations []int64
	// seen is the last known change of nodes, and positions are the nodes' positions by name.
	seen      cycle.Mark
	positions map[string]int
	// jobs are the jobs on each node, once for each replica. nodes are the positions of each job's replicas.
	jobs  [][]job
	nodes map[job]map[int]int
}

// replicasOf counts the replicas of a job on the nodes of a snapshot.
func (c *replicaCount) replicasOf(j job, all []fwk.NodeInfo, changes *cycle.Changes) *replicas {
	c.updateNodes(all, changes)
	r := &replicas{byZone: map[string]int{}, byRack: map[rack]int{}, byNode: map[string]int{}}
	for i, count := range c.nodes[j] {
		node := all[i].Node()
		if node == nil {
			continue
		}
		at := rackOf(node)
		r.byZone[at.zone] += count
		r.byRack[at] += count
		r.byNode[node.Name] = count
	}
	return r
}

func (c *replicaCount) updateNodes(all []fwk.NodeInfo, changes *cycle.Changes) {
	if c.nodes == nil || !cycle.SameNodes(c.all, all) {
		c.resetNodes(all)
	}
	changed, known := changes.ChangedSince(&c.seen, len(all)/fewChanged)
	if !known {
		for i := range all {
			c.refreshNode(i)
		}
		return
	}
	for _, name := range changed {
		if i, ok := c.positions[name]; ok {
			c.refreshNode(i)
		}
	}
}

// fewChanged is the minimum ratio of all nodes to changed nodes at which the changed ones are looked up by name.
const fewChanged = 4

// resetNodes drops everything, for another list of nodes.
func (c *replicaCount) resetNodes(all []fwk.NodeInfo) {
	*c = replicaCount{
		all: all, generations: make([]int64, len(all)), positions: make(map[string]int, len(all)),
		jobs: make([][]job, len(all)), nodes: map[job]map[int]int{},
	}
	for i, info := range all {
		c.generations[i] = -1 // which no node has
		if node := info.Node(); node != nil {
			c.positions[node.Name] = i
		}
	}
}

// refreshNode reads the pods of a node again, if it has changed.
func (c *replicaCount) refreshNode(i int) {
	if generation := c.all[i].GetGeneration(); generation != c.generations[i] {
		c.generations[i] = generation
		c.readNode(i, c.all[i])
	}
}

// readNode replaces the entries of a node.
func (c *replicaCount) readNode(i int, node fwk.NodeInfo) {
	for _, j := range c.jobs[i] {
		delete(c.nodes[j], i)
		if len(c.nodes[j]) == 0 {
			delete(c.nodes, j)
		}
	}
	c.jobs[i] = c.jobs[i][:0]
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if pod.Labels[names.LabelJob] == "" || pod.DeletionTimestamp != nil { // none, or about to leave
			continue
		}
		j := jobOf(pod)
		if c.nodes[j] == nil {
			c.nodes[j] = map[int]int{}
		}
		c.nodes[j][i]++
		c.jobs[i] = append(c.jobs[i], j)
	}
}

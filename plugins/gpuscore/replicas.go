package gpuscore

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// job tells replicas of one job from other pods. Pods of another revision of a Deployment do not count: they are
// about to go, and a rollout would otherwise end up where they are not, rather than spread.
type job struct{ namespace, name, jobType, revision string }

func jobOf(pod *corev1.Pod) job {
	return job{
		namespace: pod.Namespace,
		name:      pod.Labels[names.LabelJob],
		jobType:   pod.Labels[names.LabelJobType],
		revision:  pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey],
	}
}

// replicasOn counts the job's pods on a node, without those that are about to leave it.
func (j *job) replicasOn(node fwk.NodeInfo) int {
	count := 0
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		if pod.Labels[names.LabelJob] == j.name && pod.DeletionTimestamp == nil && jobOf(pod) == *j {
			count++
		}
	}
	return count
}

// rack is a rack by its full name: racks of two zones may be labelled alike.
type rack struct{ zone, name string }

func rackOf(node *corev1.Node) rack {
	return rack{zone: node.Labels[corev1.LabelTopologyZone], name: node.Labels[names.LabelRack]}
}

// crowd is how many replicas of a job share a node's failure domains, and the node.
type crowd struct{ zone, rack, node int }

// compareDomains orders by failure domain: the zone decides, then the rack.
func (c crowd) compareDomains(other crowd) int {
	return cmp.Or(cmp.Compare(c.zone, other.zone), cmp.Compare(c.rack, other.rack))
}

// compare orders by failure domain, then by node.
func (c crowd) compare(other crowd) int {
	return cmp.Or(c.compareDomains(other), cmp.Compare(c.node, other.node))
}

// replicas is where the replicas of one job are. Nodes without a label for zone or rack share one that is unknown.
type replicas struct {
	byZone map[string]int
	byRack map[rack]int
	byNode map[string]int
	// fewest is the least crowded of the candidates.
	fewest crowd
}

// findReplicas looks for a job's pods on all nodes, and for the least crowded candidate among some of them.
func findReplicas(j job, all, candidates []fwk.NodeInfo) *replicas {
	r := &replicas{byZone: map[string]int{}, byRack: map[rack]int{}, byNode: map[string]int{}}
	for _, node := range all {
		count := j.replicasOn(node)
		if count == 0 || node.Node() == nil {
			continue
		}
		at := rackOf(node.Node())
		r.byZone[at.zone] += count
		r.byRack[at] += count
		r.byNode[node.Node().Name] = count
	}
	for i, node := range candidates {
		if c := r.around(node.Node()); i == 0 || c.compare(r.fewest) < 0 {
			r.fewest = c
		}
	}
	return r
}

// around counts the replicas near a node.
func (r *replicas) around(node *corev1.Node) crowd {
	at := rackOf(node)
	return crowd{zone: r.byZone[at.zone], rack: r.byRack[at], node: r.byNode[node.Name]}
}

// standing says whether no candidate is in a failure domain with fewer replicas, and whether none of those that are
// in such a domain has fewer on the node itself.
func (r *replicas) standing(node *corev1.Node) (bestDomain, bestNode bool) {
	c := r.around(node)
	return c.compareDomains(r.fewest) <= 0, c.node <= r.fewest.node
}

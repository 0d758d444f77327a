package gpuscore

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
)

// job identifies the replicas of one job. Pods of another revision of a Deployment do not count: they are about to go, and a rollout would
// otherwise avoid their nodes instead of spreading.
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

// rack is a rack by its full name: racks of two zones may have the same label.
type rack struct{ zone, name string }

func rackOf(node *corev1.Node) rack {
	return rack{zone: node.Labels[corev1.LabelTopologyZone], name: node.Labels[names.LabelRack]}
}

// replicaCrowd is how many replicas of a job share a node's failure domains, and the node.
type replicaCrowd struct{ zone, rack, node int }

// compareDomains orders by failure domain: the zone decides, then the rack.
func (c replicaCrowd) compareDomains(other replicaCrowd) int {
	return cmp.Or(cmp.Compare(c.zone, other.zone), cmp.Compare(c.rack, other.rack))
}

// compareCrowd orders by failure domain, then by node.
func (c replicaCrowd) compareCrowd(other replicaCrowd) int {
	return cmp.Or(c.compareDomains(other), cmp.Compare(c.node, other.node))
}

// replicas is the location of the replicas of one job. Nodes without a label for zone or rack share an unknown one.
type replicas struct {
	byZone map[string]int
	byRack map[rack]int
	byNode map[string]int
	// fewest is the least crowded of the candidates.
	fewest replicaCrowd
}

// findFewest finds the least crowded of some nodes.
func (r *replicas) findFewest(candidates []fwk.NodeInfo) {
	for i, node := range candidates {
		if c := r.countAround(node.Node()); i == 0 || c.compareCrowd(r.fewest) < 0 {
			r.fewest = c
		}
	}
}

// countAround counts the replicas near a node.
func (r *replicas) countAround(node *corev1.Node) replicaCrowd {
	at := rackOf(node)
	return replicaCrowd{zone: r.byZone[at.zone], rack: r.byRack[at], node: r.byNode[node.Name]}
}

// standingOf returns whether no candidate is in a failure domain with fewer replicas, and whether no candidate in such a domain has fewer on the
// node itself.
func (r *replicas) standingOf(node *corev1.Node) replicaStanding {
	return r.standingAmong(r.countAround(node))
}

// standingAmong is standingOf for a node whose surrounding replicas are known.
func (r *replicas) standingAmong(c replicaCrowd) replicaStanding {
	return replicaStanding{bestDomain: c.compareDomains(r.fewest) <= 0, bestNode: c.node <= r.fewest.node}
}

// replicaStanding is how a node ranks for a replica of a job. The zero value is the worst.
type replicaStanding struct{ bestDomain, bestNode bool }

// replicaStandings are all possible values, the best first.
var replicaStandings = [...]replicaStanding{{true, true}, {true, false}, {false, true}, {false, false}}

// firstForReplica returns the best nodes for a replica that is to be spread. A node's score depends on its state and its standing, so each
// standing has its own ranking, in which only the nodes with that standing count.
func (a *attempt) firstForReplica(cs fwk.CycleState) []fwk.NodeInfo {
	near, ties := a.Plugin.replicas.replicasOf(a.job, a.question.Nodes, a.question.Changes), a.newTies(maxTriedTies)
	ties.Size = 0 // nodes of lower scores rank behind those of other standings
	var first []fwk.NodeInfo
	highest, best := shortlist.Unfit, a.rankingAs(replicaStandings[0])
	near.fewest = a.fewestAround(near, best)
	stand := a.countStandings(near, best)
	for _, as := range replicaStandings {
		if stand[as] == 0 { // otherwise all nodes would be visited in vain
			continue
		}
		ranking := a.rankingAs(as)
		if ranking.HighestValue() < highest {
			continue
		}
		nodes, value := ranking.FirstNodes(ties, func(node fwk.NodeInfo) bool {
			return near.standingOf(node.Node()) == as && a.isSuitable(node)
		})
		switch {
		case len(nodes) == 0 || value < highest:
		case value > highest:
			first, highest = nodes, value
		default:
			first = append(first, nodes...)
		}
	}
	if len(first) == 0 {
		return nil
	}
	a.state.replicas = near
	a.prepareScores(cs, a.state, len(first))
	if a.scores != nil {
		a.scores.SetWeighed(best.CountFitting())
	}
	return first
}

// countStandings returns how many of the nodes that fit the pod have each standing.
func (a *attempt) countStandings(near *replicas, ranking *shortlist.Ranking[nodeState]) map[replicaStanding]int {
	domains := a.domains.domainsFor(a.question.Candidates)
	around, stand := domains.countReplicas(near), map[replicaStanding]int{}
	for i, info := range ranking.FittingNodes() {
		c := around[domains.domainAt(i, info.Node())]
		c.node = near.byNode[info.Node().Name]
		stand[near.standingAmong(c)]++
	}
	return stand
}

// rankingAs ranks the candidates as if all had one standing.
func (a *attempt) rankingAs(as replicaStanding) *shortlist.Ranking[nodeState] {
	s, of := *a.state, a.class
	s.assumed, of.assumed = &as, as
	return a.rankingFor(of, &s)
}

// fewestAround returns the least crowded location of any node that fits the pod.
func (a *attempt) fewestAround(near *replicas, ranking *shortlist.Ranking[nodeState]) replicaCrowd {
	domains := a.domains.domainsFor(a.question.Candidates)
	around := domains.countReplicas(near)
	var fewest *replicaCrowd
	for i, info := range ranking.FittingNodes() {
		node := info.Node()
		at := domains.domainAt(i, node)
		if at == len(around) { // a new domain
			around = domains.countReplicas(near)
		}
		c := around[at]
		if fewest != nil && c.compareDomains(*fewest) > 0 {
			continue
		}
		c.node = near.byNode[node.Name]
		if (fewest == nil || c.compareCrowd(*fewest) < 0) && a.isSuitable(info) {
			fewest = &c
		}
	}
	if fewest == nil {
		return replicaCrowd{}
	}
	return *fewest
}

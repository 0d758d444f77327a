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

// replicas is the location of the replicas of one job. Nodes without a label for zone or rack share an unknown one.
type replicas struct {
	byZone map[string]int
	byRack map[rack]int
	byNode map[string]int
	// fewest is the least crowded of the candidates.
	fewest crowd
}

// compare finds the least crowded of some nodes.
func (r *replicas) compare(candidates []fwk.NodeInfo) {
	for i, node := range candidates {
		if c := r.around(node.Node()); i == 0 || c.compare(r.fewest) < 0 {
			r.fewest = c
		}
	}
}

// around counts the replicas near a node.
func (r *replicas) around(node *corev1.Node) crowd {
	at := rackOf(node)
	return crowd{zone: r.byZone[at.zone], rack: r.byRack[at], node: r.byNode[node.Name]}
}

// standingOf returns whether no candidate is in a failure domain with fewer replicas, and whether no candidate in such a domain has fewer on the
// node itself.
func (r *replicas) standingOf(node *corev1.Node) standing { return r.standingAmong(r.around(node)) }

// standingAmong is standingOf for a node whose surrounding replicas are known.
func (r *replicas) standingAmong(c crowd) standing {
	return standing{bestDomain: c.compareDomains(r.fewest) <= 0, bestNode: c.node <= r.fewest.node}
}

// standing is how a node ranks for a replica of a job. The zero value is the worst.
type standing struct{ bestDomain, bestNode bool }

// standings are all possible values, the best first.
var standings = [...]standing{{true, true}, {true, false}, {false, true}, {false, false}}

// firstForReplica returns the best nodes for a replica that is to be spread. A node's score depends on its state and its standing, so each
// standing has its own ranking, in which only the nodes with that standing count.
func (a *attempt) firstForReplica(cs fwk.CycleState) []fwk.NodeInfo {
	near, ties := a.Plugin.replicas.of(a.job, a.question.Nodes, a.question.Changes), a.ties(tried)
	ties.Size = 0 // nodes of lower scores rank behind those of other standings
	var first []fwk.NodeInfo
	highest, best := shortlist.Unfit, a.rankingAs(standings[0])
	near.fewest = a.fewest(near, best)
	stand := a.countStandings(near, best)
	for _, as := range standings {
		if stand[as] == 0 { // otherwise all nodes would be visited in vain
			continue
		}
		ranking := a.rankingAs(as)
		if ranking.Highest() < highest {
			continue
		}
		nodes, value := ranking.First(ties, func(node fwk.NodeInfo) bool {
			return near.standingOf(node.Node()) == as && a.suits(node)
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
	a.explain(cs, a.state, len(first))
	if a.scores != nil {
		a.scores.Weighed(best.Fit())
	}
	return first
}

// countStandings returns how many of the nodes that fit the pod have each standing.
func (a *attempt) countStandings(near *replicas, ranking *shortlist.Ranking[nodeState]) map[standing]int {
	domains := a.domains.of(a.question.Candidates)
	around, stand := domains.crowds(near), map[standing]int{}
	for i, info := range ranking.Fitting() {
		c := around[domains.at(i, info.Node())]
		c.node = near.byNode[info.Node().Name]
		stand[near.standingAmong(c)]++
	}
	return stand
}

// rankingAs ranks the candidates as if all had one standing.
func (a *attempt) rankingAs(as standing) *shortlist.Ranking[nodeState] {
	s, of := *a.state, a.kind
	s.assumed, of.assumed = &as, as
	return a.ranking(of, &s)
}

// fewest returns the least crowded location of any node that fits the pod.
func (a *attempt) fewest(near *replicas, ranking *shortlist.Ranking[nodeState]) crowd {
	domains := a.domains.of(a.question.Candidates)
	around := domains.crowds(near)
	var fewest *crowd
	for i, info := range ranking.Fitting() {
		node := info.Node()
		at := domains.at(i, node)
		if at == len(around) { // a new domain
			around = domains.crowds(near)
		}
		c := around[at]
		if fewest != nil && c.compareDomains(*fewest) > 0 {
			continue
		}
		c.node = near.byNode[node.Name]
		if (fewest == nil || c.compare(*fewest) < 0) && a.suits(info) {
			fewest = &c
		}
	}
	if fewest == nil {
		return crowd{}
	}
	return *fewest
}

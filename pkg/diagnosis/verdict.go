package diagnosis

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// verdictRule recognises one reason in the scheduler's verdict on a pod. Most begin with the number of nodes.
type verdictRule struct {
	pattern *regexp.Regexp
	cause   Cause
	// text is the sentence; it may use the pattern's named groups as $name.
	text   string
	advice []string
}

func reason(pattern string, cause Cause, text string, advice ...string) verdictRule {
	return verdictRule{pattern: regexp.MustCompile(`(?:(?P<n>\d+) )?` + pattern), cause: cause, text: text, advice: advice}
}

// podRules are about the pod itself, whatever the node. While they hold, the scheduler looks at no node.
var podRules = []verdictRule{
	reason(`persistentvolumeclaim "(?P<name>[^"]+)" not found`, VolumeMissing,
		"the namespace has no PersistentVolumeClaim $name",
		"create the claim $name in this namespace, or correct its name in the job"),
	reason(`persistentvolumeclaim "(?P<name>[^"]+)" is being deleted`, VolumeMissing,
		"the PersistentVolumeClaim $name is being deleted", "use another claim"),
	reason(`persistentvolumeclaim "(?P<name>[^"]+)" bound to non-existent persistentvolume "(?P<volume>[^"]+)"`, VolumeMissing,
		"the volume $volume of the PersistentVolumeClaim $name is gone", "create the claim anew"),
	reason(`pod has unbound immediate PersistentVolumeClaims`, VolumeUnbound,
		"a PersistentVolumeClaim of the job is not bound to a volume",
		"see why: kubectl describe pvc; usually no volume matches its class and size, or the storage class has no provisioner"),
	reason(`resourceclaim "(?P<name>[^"]+)" not found`, DeviceClaim,
		"the namespace has no ResourceClaim $name", "create it, or correct its name"),
	reason(`gang: there is room for (?P<k>\d+) of (?P<all>\d+) members now`, GangWaiting,
		"there is room for $k of the $all members of the job, which start together or not at all",
		"wait until more nodes are free; the job holds no GPUs meanwhile", "or ask for fewer nodes, or fewer GPUs of each"),
	reason(`gang: the nodes that suit it have room for (?P<k>\d+) of (?P<all>\d+) members`, GangTooLarge,
		"the nodes that suit the job take $k of its $all members, even when they are empty",
		"ask for fewer nodes, or fewer GPUs of each, or use a larger pool"),
	reason(`(?:optimistic rejection in PostFilter|rejection in Unreserve|gated pods in the same PodGroup|a member found no place a moment ago)`, GangWaiting,
		"another member of the job found no place, and all start together or not at all",
		"wait until more nodes are free; the job holds no GPUs meanwhile"),
	reason(`PodGroup not found`, GangIncomplete, "the pod names a PodGroup that does not exist",
		"create the PodGroup, or delete the job and submit it again"),
	reason(`gang: the PodGroup cannot be used: (?P<what>.+?)\.?(?: no new claims to deallocate.*)?$`, GangIncomplete,
		"the PodGroup of the job cannot be used: $what", "correct that field of the PodGroup: kubectl edit podgroup; the job starts by itself then"),
	reason(`gang: members that have no place yet name another scheduler`, GangIncomplete,
		"pods of the job wait for another scheduler, and all start together or not at all",
		"give all pods of the PodGroup the same schedulerName"),
	reason(`gang: the nodes have less (?P<what>\S+) free than spec.minResources of the PodGroup asks for`, GangWaiting,
		"the nodes have less $what free than spec.minResources of the job's PodGroup asks for",
		"wait until more is free, or ask for less in spec.minResources of the PodGroup"),
}

// nodeRules are about nodes, and about what only the scheduler knows.
var nodeRules = []verdictRule{
	reason(`node\(s\) didn't match pod affinity rules`, PodAffinity,
		"the job must run near pods that are on no node which could take it",
		"start the pods that its pod affinity names first, or make the affinity preferred"),
	reason(`node\(s\) didn't (?:match pod anti-affinity rules|satisfy existing pods anti-affinity rules)`, PodAntiAffinity,
		"pods that must not share a node with the job are on the nodes that could take it",
		"wait until they end, add nodes, or make the anti-affinity preferred"),
	reason(`node\(s\) didn't match pod topology spread constraints(?: \(missing required label\))?`, TopologySpread,
		"the job's pods must be spread more evenly than the nodes with room allow",
		"raise maxSkew of the topology spread constraint, or set whenUnsatisfiable: ScheduleAnyway"),
	reason(`node\(s\) didn't have free ports for the requested pod ports`, HostPort,
		"the port that the job wants on the node itself is taken on every node that could take it",
		"use another hostPort, or none: a Service needs no port of the node"),
	reason(`node\(s\) didn't find available persistent volumes to bind`, VolumeUnbound,
		"no volume that the job's claim could bind is reachable from the nodes that could take it",
		"see why: kubectl describe pvc; usually no volume matches its class and size"),
	reason(`node\(s\) (?:had volume node affinity conflict|didn't match PersistentVolume's node affinity)`, VolumeElsewhere,
		"the job's volume is bound to other nodes or another zone",
		"use a pool in the volume's zone, or another volume"),
	reason(`node\(s\) exceed max volume count`, VolumeLimit,
		"the nodes cannot attach more volumes", "wait until pods with volumes end, or add nodes"),
	reason(`(?:cannot allocate all claims|node\(s\) had .*resource ?claim[^,.]*)`, DeviceClaim,
		"the devices that the job's ResourceClaim asks for are not free", "wait, or ask for fewer devices"),
	reason(`node\(s\) are kept whole for pods that take a whole node`, KeptWhole,
		"the last idle nodes of the pool are kept for pods that take a whole one, and no other node has room",
		"wait: it starts when GPUs of another node are free, when more nodes are idle, or when one has been for 30 minutes",
		"or ask for all GPUs of a node, if the job can use them",
		"or use priority high, from which no node is kept, or another pool",
		"the administrators set how many nodes are kept: keepWholePerMille of GPUScore"),
	reason(`node\(s\) have a GPU type that this scheduler profile does not serve`, TypeNotServed,
		"the scheduler is set to serve other GPU types only",
		"ask for a type that it serves: the administrators set gpuTypes of GPUFilter"),
}

// plainRules are what nodes themselves show too. They are used where the nodes may not be read.
var plainRules = []verdictRule{
	reason(`no node is in GPU pool "(?P<name>[^"]+)"(?: \((?P<known>[^)]*)\))?`, NoSuchPool,
		"no node is in pool $name ($known)", "name one of the pools that exist"),
	reason(`no node[^.]* (?:has|have) GPU type (?P<name>[^(]+?)(?: \((?P<known>[^)]*)\))?(?:\.|$)`, NoSuchType,
		"no node of the pool has GPU type $name", "ask for a type that the pool has"),
	reason(`node\(s\) (?:had|have) too few free GPUs`, Busy,
		"the GPUs of the nodes that could take the job are in use", "wait, or ask for fewer GPUs per pod"),
	reason(`node\(s\) (?:had|have) fewer GPUs than (?:asked|the pod asks for)`, TooManyGPUs,
		"the nodes have fewer GPUs than a pod asks for", "ask for fewer GPUs per pod"),
	reason(`node\(s\) had too few GPUs with enough memory`, GPUMemory,
		"the GPUs have less memory than the job asks for", "ask for less memory per GPU"),
	reason(`node\(s\) were unschedulable`, Cordoned, "the nodes are cordoned", "ask the administrators when they come back"),
	reason(`node\(s\) had untolerated taint(?:\(s\)| (?P<taint>\{[^}]*\}))`, Tainted,
		"the nodes have the taint $taint, which the job does not tolerate", "add a toleration in resources.tolerations"),
	reason(`Insufficient cpu`, CPUShort, "the nodes have too little CPU free", "ask for less CPU"),
	reason(`Insufficient memory`, MemoryShort, "the nodes have too little memory free", "ask for less memory"),
	reason(`Too many pods`, PodLimit, "the nodes have as many pods as they take", "wait"),
	reason(`node\(s\) didn't match Pod's node affinity/selector`, NodeSelector,
		"no node has the labels that the job selects", "correct the node selector"),
}

// findings returns what the rules recognise in a verdict, the reasons of the most nodes first.
func findings(verdict string, rules []verdictRule) []Finding {
	// What follows is the outcome of the search for victims, node by node once more.
	verdict, _, _ = strings.Cut(verdict, " preemption: ")
	var out []Finding
	for _, rule := range rules {
		match := rule.pattern.FindStringSubmatchIndex(verdict)
		if match == nil {
			continue
		}
		nodes, _ := strconv.Atoi(rule.fill("$n", verdict, match))
		finding := Finding{Cause: rule.cause, Nodes: nodes, Text: rule.fill(rule.text, verdict, match)}
		for _, advice := range rule.advice {
			finding.Advice = append(finding.Advice, rule.fill(advice, verdict, match))
		}
		out = append(out, finding)
	}
	slices.SortStableFunc(out, func(a, b Finding) int { return cmp.Compare(b.Nodes, a.Nodes) })
	return out
}

// fill replaces $name in a text by what the group of that name matched.
func (r verdictRule) fill(text, verdict string, match []int) string {
	return string(r.pattern.ExpandString(nil, text, verdict, match))
}

// rejected is what remains of a verdict that no rule knows.
func rejected(verdict string) Finding {
	verdict, _, _ = strings.Cut(verdict, " preemption: ")
	return Finding{
		Cause: RejectedByScheduler, Text: fmt.Sprintf("the scheduler says: %s", strings.TrimRight(verdict, " .")),
		Advice: []string{"change the job as the message says, or ask the administrators of the cluster"},
	}
}

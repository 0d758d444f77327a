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
	// text is the sentence; it and the steps may use the pattern's named groups as $name.
	text  string
	steps []Step
}

func reason(pattern string, cause Cause, text string, steps ...Step) verdictRule {
	return verdictRule{pattern: regexp.MustCompile(`(?:(?P<n>\d+) )?` + pattern), cause: cause, text: text, steps: steps}
}

// claimRules are about claims of volumes. They are used where the claims may not be read.
var claimRules = []verdictRule{
	reason(`persistentvolumeclaim "(?P<name>[^"]+)" not found`, VolumeMissing,
		"the namespace has no PersistentVolumeClaim $name", missingClaim("$name")...),
	reason(`persistentvolumeclaim "(?P<name>[^"]+)" is being deleted`, VolumeMissing,
		"the PersistentVolumeClaim $name is being deleted", missingClaim("$name")...),
	reason(`persistentvolumeclaim "(?P<name>[^"]+)" bound to non-existent persistentvolume "(?P<volume>[^"]+)"`, VolumeMissing,
		"the volume $volume of the PersistentVolumeClaim $name is gone",
		Step{Action: CreateObject, Kind: kindClaim, Name: "$name", Text: "create the claim $name anew"}),
	reason(`pod has unbound immediate PersistentVolumeClaims`, VolumeUnbound,
		"a PersistentVolumeClaim of the job is not bound to a volume",
		inspecting("see why; usually no volume matches its class and size, or the storage class has no provisioner", describeClaims)),
	reason(`node\(s\) didn't find available persistent volumes to bind`, VolumeUnbound,
		"no volume that the job's claim could bind is reachable from the nodes that could take it",
		inspecting("see why; usually no volume matches its class and size", describeClaims)),
	reason(`node\(s\) (?:had volume node affinity conflict|didn't match PersistentVolume's node affinity)`, VolumeElsewhere,
		"the job's volume is bound to other nodes or another zone",
		Step{Action: Move, Text: "use a pool in the volume's zone"},
		Step{Action: SetField, Field: "storage.workdirs", Text: "use another volume"}),
}

const describeClaims = "kubectl describe pvc"

// onClaims returns what the rules recognise of the claims of a namespace, of which the verdict says nothing.
func onClaims(verdict, namespace string) []Finding {
	out := findings(verdict, claimRules)
	for _, finding := range out {
		for i, step := range finding.Steps {
			if step.Command == describeClaims {
				finding.Steps[i].Command += " -n " + namespace
				finding.Steps[i].Text += " -n " + namespace // which ends with the command
			}
		}
	}
	return out
}

// gangRules are about members of a gang. They are used where the nodes may not be read.
var gangRules = []verdictRule{
	reason(`gang: there is room for (?P<k>\d+) of (?P<all>\d+) members now`, GangWaiting,
		"there is room for $k of the $all members of the job, which start together or not at all",
		waiting("wait until more nodes are free; the job holds no GPUs meanwhile"),
		Step{Action: SetField, Field: fieldNodes, Text: "ask for fewer nodes, or fewer GPUs of each"}),
	reason(`gang: the nodes that suit it have room for (?P<k>\d+) of (?P<all>\d+) members`, GangTooLarge,
		"the nodes that suit the job take $k of its $all members, even when they are empty",
		Step{Action: SetField, Field: fieldNodes, Text: "ask for fewer nodes, or fewer GPUs of each, or use a larger pool"}),
	reason(`(?:optimistic rejection in PostFilter|rejection in Unreserve|podGroup \S+ failed recently|gang: a member found no place a moment ago)`, GangWaiting,
		"another member of the job found no place, and all start together or not at all",
		waiting("wait until more nodes are free; the job holds no GPUs meanwhile")),
}

// podRules are about the pod itself, whatever the node. While they hold, the scheduler looks at no node.
var podRules = []verdictRule{
	reason(`resourceclaim "(?P<name>[^"]+)" not found`, DeviceClaim,
		"the namespace has no ResourceClaim $name",
		Step{Action: CreateObject, Kind: "ResourceClaim", Name: "$name", Text: "create it, or correct its name"}),
	reason(`gang: the PodGroup cannot be used: (?P<problem>.*?)\.?(?: (?:no new claims to deallocate|preemption: ).*)?$`, GangUnreadable,
		"the PodGroup of the job cannot be used: $problem",
		Step{Action: Resubmit, Kind: "PodGroup", Text: "correct the PodGroup, or delete the job and create it again from its file, which makes another one"}),
	reason(`gang: the nodes have less (?P<name>\S+) free than spec.minResources of the PodGroup asks for`, GangWaiting,
		"the nodes have less $name free than the PodGroup of the job asks for in spec.minResources",
		waiting("wait until more nodes are free"),
		Step{Action: Resubmit, Kind: "PodGroup", Text: "ask for less in spec.minResources of the PodGroup"}),
	reason(`gang: members that have no place yet name another scheduler`, OtherScheduler,
		"members of the job name another scheduler, and all start together or not at all",
		Step{Action: Resubmit, Field: "spec.schedulerName", Text: "delete the job, give all its pods the same schedulerName, and submit it again"}),
	reason(`gated pods in the same PodGroup`, SchedulingGated,
		"other members of the job are held back by a scheduling gate, and all start together or not at all",
		Step{Action: OpenGate, Text: "wait until what set the gate takes it away, such as a queue or quota system; ask who runs it"}),
	reason(`PodGroup not found`, GangIncomplete, "the pod names a PodGroup that does not exist",
		Step{Action: CreateAgain, Text: "complete the job: gpuctl create with the same file once more"}),
}

// nodeRules are about nodes, and about what only the scheduler knows.
var nodeRules = []verdictRule{
	reason(`node\(s\) didn't match pod affinity rules`, PodAffinity,
		"the job must run near pods that are on no node which could take it",
		waiting("start the pods that its pod affinity names first, and wait"),
		Step{Action: Resubmit, Field: "spec.affinity.podAffinity", Text: "delete the job, make the affinity preferred, and submit it again"}),
	reason(`node\(s\) didn't (?:match pod anti-affinity rules|satisfy existing pods anti-affinity rules)`, PodAntiAffinity,
		"pods that must not share a node with the job are on the nodes that could take it",
		waiting("wait until they end, or nodes are added"),
		Step{Action: Resubmit, Field: "spec.affinity.podAntiAffinity", Text: "delete the job, make the anti-affinity preferred, and submit it again"}),
	reason(`node\(s\) didn't match pod topology spread constraints(?: \(missing required label\))?`, TopologySpread,
		"the job's pods must be spread more evenly than the nodes with room allow",
		Step{Action: Resubmit, Field: "spec.topologySpreadConstraints",
			Text: "delete the job, set whenUnsatisfiable: ScheduleAnyway in its topology spread constraint or raise maxSkew, and submit it again"}),
	reason(`node\(s\) didn't have free ports for the requested pod ports`, HostPort,
		"the port that the job wants on the node itself is taken on every node that could take it",
		Step{Action: Resubmit, Field: "hostPort",
			Text: "delete the job, use another hostPort or none, and submit it again: a Service needs no port of the node"}),
	reason(`node\(s\) exceed max volume count`, VolumeLimit,
		"the nodes cannot attach more volumes", waiting("wait until pods with volumes end, or nodes are added")),
	reason(`(?:cannot allocate all claims|node\(s\) had .*resource ?claim[^,.]*)`, DeviceClaim,
		"the devices that the job's ResourceClaim asks for are not free", waiting("wait, or ask for fewer devices")),
	reason(`node\(s\) are kept whole for pods that take a whole node`, KeptWhole,
		"the last idle nodes of the pool are kept for pods that take a whole one, and no other node has room",
		waiting("wait: it starts when GPUs of another node are free, when more nodes are idle, or when one has been for 30 minutes"),
		Step{Action: SetPriority, Value: "high", Text: "use priority high, from which no node is kept, or another pool"},
		Step{Action: SetField, Field: fieldGPU, Text: "ask for all GPUs of a node, if the job can use them"},
		inspecting("the administrators set how many nodes are kept, with keepWholePerMille of GPUScore", "gpuctl get nodes")),
	reason(`node\(s\) have a GPU type that this scheduler profile does not serve`, TypeNotServed,
		"the scheduler is set to serve other GPU types only",
		Step{Action: SetField, Field: fieldType, Text: "ask for a type that it serves: the administrators set gpuTypes of GPUFilter"}),
}

// plainRules are what nodes themselves show too. They are used where the nodes may not be read.
var plainRules = []verdictRule{
	reason(`no node is in GPU pool "(?P<name>[^"]+)"(?: \((?P<known>[^)]*)\))?`, NoSuchPool,
		"no node is in pool $name ($known)", Step{Action: Move, Text: "name one of the pools that exist"}),
	reason(`no node[^.]* (?:has|have) GPU type (?P<name>[^(]+?)(?: \((?P<known>[^)]*)\))?(?:\.|$)`, NoSuchType,
		"no node of the pool has GPU type $name", Step{Action: SetField, Field: fieldType, Text: "ask for a type that the pool has"}),
	reason(`node\(s\) (?:had|have) too few free GPUs`, Busy,
		"the GPUs of the nodes that could take the job are in use",
		waiting("wait"), Step{Action: SetField, Field: fieldGPU, Text: "ask for fewer GPUs per pod"}),
	reason(`node\(s\) (?:had|have) fewer GPUs than (?:asked|the pod asks for)`, TooManyGPUs,
		"the nodes have fewer GPUs than a pod asks for", Step{Action: SetField, Field: fieldGPU, Text: "ask for fewer GPUs per pod"}),
	reason(`node\(s\) had too few GPUs with enough memory`, GPUMemory,
		"the GPUs have less memory than the job asks for", Step{Action: SetField, Field: fieldShare, Text: "ask for less memory per GPU"}),
	reason(`node\(s\) were unschedulable`, Cordoned, "the nodes are cordoned",
		Step{Action: Uncordon, Text: "ask the administrators when they come back"}),
	reason(`node\(s\) had untolerated taint(?:\(s\)| (?P<taint>\{[^}]*\}))`, Tainted,
		"the nodes have the taint $taint, which the job does not tolerate",
		Step{Action: SetField, Field: fieldTolerations, Text: "add a toleration in resources.tolerations"}),
	reason(`Insufficient cpu`, CPUShort, "the nodes have too little CPU free", Step{Action: SetField, Field: fieldCPU, Text: "ask for less CPU"}),
	reason(`Insufficient memory`, MemoryShort, "the nodes have too little memory free",
		Step{Action: SetField, Field: fieldMemory, Text: "ask for less memory"}),
	reason(`Too many pods`, PodLimit, "the nodes have as many pods as they take", waiting("wait")),
	reason(`node\(s\) didn't match Pod's node affinity/selector`, NodeSelector,
		"no node has the labels that the job selects",
		Step{Action: Resubmit, Field: "spec.nodeSelector", Text: "delete the job, correct the node selector, and submit it again"}),
}

// Fields of the job's YAML that steps name.
const (
	fieldPool        = "resources.pool"
	fieldGPU         = "resources.gpu"
	fieldNodes       = "resources.nodes"
	fieldType        = "resources.gpu-type"
	fieldShare       = "resources.gpu-share"
	fieldCPU         = "resources.cpu"
	fieldMemory      = "resources.memory"
	fieldTolerations = "resources.tolerations"
	fieldTimeLimit   = "resources.time-limit"
	fieldImage       = "environment.image"
	fieldWorkdirs    = "storage.workdirs"
)

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
		for _, step := range rule.steps {
			step.Name, step.Text = rule.fill(step.Name, verdict, match), rule.fill(step.Text, verdict, match)
			finding.Steps = append(finding.Steps, step)
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
		Steps: []Step{{Action: AskAdministrators, Text: "change the job as the message says, or ask the administrators of the cluster"}},
	}
}

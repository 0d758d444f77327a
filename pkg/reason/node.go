package reason

import "g8s.host/gpu-scheduler/pkg/gpu"

// Reasons of our plugins about nodes.
var (
	NotServed = &Reason{
		Code: "not_served", Text: "node(s) have a GPU type that this scheduler profile does not serve", Cause: TypeNotServed,
		Message: "the scheduler is set to serve other GPU types only",
		Advice:  []Advice{{Action: SetField, Field: FieldType, Text: "ask for a type that it serves: the administrators set gpuTypes of GPUFilter"}},
	}
	KeptForWhole = &Reason{
		Text: "node(s) are kept whole for pods that take a whole node", Cause: KeptWhole,
		Message: "the last idle nodes of the pool are kept for pods that take a whole one, and no other node has room",
		Advice: []Advice{
			waitAdvice("wait: it starts when GPUs of another node are free, when more nodes are idle, or when one has been for 30 minutes"),
			{Action: SetPriority, Value: "high", Text: "use priority high, from which no node is kept, or another pool"},
			{Action: SetField, Field: FieldGPU, Text: "ask for all GPUs of a node, if the job can use them"},
			inspectAdvice("the administrators set how many nodes are kept, with keepWholePerMille of GPUScore", "gpuctl get nodes"),
		},
	}
	// KeptForFirst is the reason of a node that has room, which is reserved for the first job in the queue.
	KeptForFirst = &Reason{
		Text: "node(s) have room that is promised to a job that comes first", Cause: StartReservedForFirst,
		Message: "the room that there is was promised to a job that comes before this one, which could still run when that starts",
		Advice: []Advice{
			waitAdvice("wait: it starts when there is room beside that job, or after it"),
			{Action: SetField, Field: FieldTimeLimit, Text: "if it can end before that job starts, set resources.time-limit: short jobs run in the meantime"},
			{Action: SetPriority, Value: "high", Text: "use a higher priority than that job's, if this one is more urgent"},
		},
	}
	// Repelled is the reason of Kubernetes' InterPodAffinity for the anti-affinity of existing pods.
	Repelled = &Reason{
		Text: "node(s) didn't satisfy existing pods anti-affinity rules", Cause: AntiAffinityOfOthers,
		Message: "pods that are on the nodes, or near them, want no pod like this one beside them",
		Advice: []Advice{
			{Action: AskAdministrators, Text: "ask the administrators whose pods they are: those with a required podAntiAffinity that selects this job"},
			waitAdvice("wait until they end"),
		},
	}
	// SpreadTooUnevenly is the reason of Kubernetes' PodTopologySpread. Dry runs of gangs use the same text.
	SpreadTooUnevenly = &Reason{
		Text: "node(s) didn't match pod topology spread constraints", Cause: TopologySpread,
		Message: "the job's pods must be spread more evenly than the nodes with room allow",
		Advice: []Advice{{Action: Resubmit, Field: "spec.topologySpreadConstraints",
			Text: "delete the job, set whenUnsatisfiable: ScheduleAnyway in its topology spread constraint or raise maxSkew, and submit it again"}},
	}
	Reserved = &Reason{
		Code: "reserved", Text: "node(s) are kept for others by a GPUReservation", Cause: ReservedNode,
		Message: "nodes that could take the job are kept for others, or for maintenance, at a time at which it could still run",
		Advice: []Advice{
			waitAdvice("wait: it is tried again when the reservation ends"),
			{Action: SetField, Field: FieldTimeLimit, Text: "if it can end before the reservation begins, set resources.time-limit"},
			inspectAdvice("see what is kept, for whom and until when", "kubectl get gpureservations"),
		},
	}
	AgentGivesNone = &Reason{
		Code: "agent_away", Text: "node(s) have a gpu-agent that gives out no GPUs", Cause: AgentAway,
		Message: "gpu-agent gives out no GPUs on the nodes that could take the job",
		Advice: []Advice{
			waitAdvice("wait: it starts when the agent is back"),
			inspectAdvice("the administrators see what the agent says in the condition GPUAgentReady of the nodes", "gpuctl doctor"),
		},
	}
	PoolUnknown = &Reason{
		Text: "no node is in GPU pool %q (%s)", Cause: NoSuchPool, Message: "no node is in pool %[1]s (%[2]s)",
		Advice: []Advice{{Action: Move, Text: "name one of the pools that exist"}},
	}
	TypeUnknown = &Reason{
		Text: "no node has GPU type %s", Cause: NoSuchType, Message: "no node has GPU type %[1]s",
		Advice: []Advice{{Action: SetField, Field: FieldType, Text: "ask for a type that the cluster has"}},
	}
	TypeNotInPool = &Reason{
		Text: "no node of GPU pool %q has GPU type %s (%s)", Cause: NoSuchType, Message: "no node of pool %[1]s has GPU type %[2]s (%[3]s)",
		Advice: []Advice{{Action: SetField, Field: FieldType, Text: "ask for a type that the pool has"}},
	}
	// TooFewSlices is the reason of Kubernetes' NodeResourcesFit, and of GPUFilter for a node that names its slices.
	TooFewSlices = &Reason{
		Code: "too_few_slices", Text: "Insufficient nvidia.com/mig-%s", Cause: ResourceShort, Evictable: true,
		Message: "the nodes have too few MIG slices of that size free",
		Advice:  []Advice{waitAdvice("wait"), {Action: SetField, Field: FieldMIG, Text: "ask for fewer slices, or for another profile, in resources.mig"}},
	}
	// NoGPUMemory is the reason of NodeResourcesFit for pods that request the memory of GPUs as a resource, which no device plugin offers.
	NoGPUMemory = &Reason{
		Text: "Insufficient nvidia.com/gpu-memory", Cause: ResourceShort,
		Message: "the pod asks for nvidia.com/gpu-memory, a resource that device plugins do not offer",
		Advice: []Advice{{Action: Resubmit, Kind: KindPod, Field: "metadata.annotations", Text: "take nvidia.com/gpu-memory out of the requests and limits of the pod; " +
			"its annotation g8s.host/gpu-memory-min, such as 40Gi, asks for GPUs with that much memory each"}},
	}
	InOtherPool    = &Reason{Code: "pool", Text: "node(s) are not in the pod's GPU pool", Cause: NoSuchPool}
	WithOtherType  = &Reason{Code: "type", Text: "node(s) have another GPU type", Cause: NoSuchType}
	InAnotherPool  = &Reason{Text: "node(s) are in another GPU pool", Cause: NoSuchPool}
	OtherInBoth    = &Reason{Text: "node(s) are in another GPU pool and have another GPU type", Cause: NoSuchPool}
	fewerGPUs      = []Advice{{Action: SetField, Field: FieldGPU, Text: "ask for fewer GPUs per pod"}}
	waitOrAskFewer = append([]Advice{waitAdvice("wait")}, fewerGPUs...)
)

// gpuReasons are the reasons for which GPUs do not serve a pod, by the code of the allocator.
var gpuReasons = [gpu.Codes]*Reason{
	gpu.NoGPUs: {Code: "no_gpus", Text: "node(s) have no GPUs", Cause: NoGPUs, Message: "the nodes have no GPUs",
		Advice: []Advice{{Action: Move, Text: "use a pool whose nodes have GPUs"}}},
	gpu.TooFewGPUs: {Code: "too_small", Text: "node(s) have fewer GPUs than the pod asks for", Cause: TooManyGPUs,
		Message: "the nodes have fewer GPUs than a pod asks for", Advice: fewerGPUs},
	gpu.OnlySlots: {Code: "slots", Text: "node(s) offer parts of GPUs, of which a pod gets one", Cause: TooManyGPUs,
		Message: "the nodes offer parts of GPUs (time-slicing, MPS or MIG), of which a pod gets one: two could be parts of the same GPU",
		Advice:  append([]Advice{{Action: Move, Text: "use a pool whose nodes have whole GPUs"}}, fewerGPUs...)},
	gpu.TooFewOfType: {Code: "other_model", Text: "node(s) have several GPU models, and too few GPUs of the type", Cause: TooManyGPUs,
		Message: "the nodes have several GPU models, and too few GPUs of the type that the job asks for", Advice: fewerGPUs},
	gpu.MemoryUnknown: {Code: "memory_unknown", Text: "node(s) do not report the memory of their GPUs", Cause: GPUMemory,
		Message: "nothing tells how much memory the GPUs of the nodes have",
		Advice:  []Advice{{Action: CorrectNode, Text: "ask the administrators to label the nodes with it"}}},
	gpu.TooFewMemory: {Code: "memory", Text: "node(s) have too few GPUs with enough memory", Cause: GPUMemory,
		Message: "the GPUs have less memory than the job asks for",
		Advice:  []Advice{{Action: SetField, Field: FieldShare, Text: "ask for less memory per GPU"}}},
	gpu.TooFewHealthy: {Code: "unhealthy", Text: "node(s) have too few healthy GPUs", Cause: UnhealthyGPUs,
		Message: "too many GPUs of the nodes are not healthy",
		Advice:  append([]Advice{{Action: MendGPUs, Text: "tell the administrators that cards need mending"}}, fewerGPUs...)},
	gpu.TooFewFree: {Code: "too_few_free", Text: "node(s) have too few free GPUs", Cause: Busy, Evictable: true,
		Message: "the GPUs of the nodes that could take the job are in use", Advice: waitOrAskFewer},
	gpu.TooFewShareable: {Code: "too_little_shareable", Text: "node(s) have too little free memory on GPUs that can be shared", Cause: Busy, Evictable: true,
		Message: "the memory of the shared GPUs is in use",
		Advice:  []Advice{waitAdvice("wait"), {Action: SetField, Field: FieldShare, Text: "ask for less memory per GPU"}}},
}

// ReasonForCode returns the reason why the GPUs of a node do not serve a pod; nil for [gpu.Fits].
func ReasonForCode(code gpu.Code) *Reason { return gpuReasons[code] }

// NodeReasons are about nodes, including what only the scheduler knows.
var NodeReasons = []*Reason{
	{
		Text: "node(s) didn't match pod affinity rules", Cause: PodAffinity,
		Message: "the job must run near pods that are on no node which could take it",
		Advice: []Advice{
			waitAdvice("start the pods that its pod affinity names first, and wait"),
			{Action: Resubmit, Field: "spec.affinity.podAffinity", Text: "delete the job, make the affinity preferred, and submit it again"},
		},
	},
	{
		Text: "node(s) didn't match pod anti-affinity rules", Cause: PodAntiAffinity,
		Message: "pods that must not share a node with the job are on the nodes that could take it",
		Advice: []Advice{
			waitAdvice("wait until they end, or nodes are added"),
			{Action: Resubmit, Field: "spec.affinity.podAntiAffinity", Text: "delete the job, make the anti-affinity preferred, and submit it again"},
		},
	},
	Repelled,
	SpreadTooUnevenly,
	{
		Text: "node(s) didn't have free ports for the requested pod ports", Cause: HostPort,
		Message: "the port that the job wants on the node itself is taken on every node that could take it",
		Advice: []Advice{{Action: Resubmit, Field: "hostPort",
			Text: "delete the job, use another hostPort or none, and submit it again: a Service needs no port of the node"}},
	},
	{
		Text: "node(s) exceed max volume count", Cause: VolumeLimit, Message: "the nodes cannot attach more volumes",
		Advice: []Advice{waitAdvice("wait until pods with volumes end, or nodes are added")},
	},
	{
		Text: "cannot allocate all claims", Also: []Text{"resourceclaim not available on the node"}, Cause: DeviceClaim,
		Message: "the devices that the job's ResourceClaim asks for are not free", Advice: []Advice{waitAdvice("wait, or ask for fewer devices")},
	},
	KeptForWhole, KeptForFirst, Reserved, NotServed, TypeOverQuota, GuaranteedToOthers,
}

// PlainNodeReasons are about what nodes themselves show as well.
var PlainNodeReasons = append([]*Reason{
	PoolUnknown, TypeNotInPool, TypeUnknown, AgentGivesNone,
	{Text: "node(s) were unschedulable", Cause: Cordoned, Message: "the nodes are cordoned",
		Advice: []Advice{{Action: Uncordon, Text: "ask the administrators when they come back"}}},
	{Text: "node(s) had untolerated taint", Cause: Tainted,
		Message: "the nodes have a taint that the job does not tolerate",
		Advice:  []Advice{{Action: SetField, Field: FieldTolerations, Text: "add a toleration in resources.tolerations"}}},
	{Text: "Insufficient cpu", Cause: CPUShort, Evictable: true, Message: "the nodes have too little CPU free",
		Advice: []Advice{{Action: SetField, Field: FieldCPU, Text: "ask for less CPU"}}},
	{Text: "Insufficient memory", Cause: MemoryShort, Evictable: true, Message: "the nodes have too little memory free",
		Advice: []Advice{{Action: SetField, Field: FieldMemory, Text: "ask for less memory"}}},
	TooFewSlices, NoGPUMemory,
	{Text: "Too many pods", Cause: PodLimit, Evictable: true, Message: "the nodes have as many pods as they take", Advice: []Advice{waitAdvice("wait")}},
	{Text: "node(s) didn't match Pod's node affinity/selector", Cause: NodeSelector, Message: "no node has the labels that the job selects",
		Advice: []Advice{{Action: Resubmit, Field: "spec.nodeSelector", Text: "delete the job, correct the node selector, and submit it again"}}},
}, gpuReasons[1:]...)

// Excluded is the scheduler's text for nodes that GPUFilter excluded.
const Excluded Text = "didn't satisfy plugin(s) [GPUFilter]"

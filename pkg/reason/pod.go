package reason

import "strconv"

// Fields of the job's YAML that advice names.
const (
	FieldPool         = "resources.pool"
	FieldGPU          = "resources.gpu"
	FieldNodes        = "resources.nodes"
	FieldTopology     = "resources.topology"
	FieldTopologyMode = "resources.topology.mode"
	FieldSegment      = "resources.topology.segment"
	FieldType         = "resources.gpu-type"
	FieldMIG          = "resources.mig"
	FieldShare        = "resources.gpu-share"
	FieldCPU          = "resources.cpu"
	FieldMemory       = "resources.memory"
	FieldTolerations  = "resources.tolerations"
	FieldTimeLimit    = "resources.time-limit"
	FieldImage        = "environment.image"
	FieldWorkdirs     = "storage.workdirs"
	FieldReplicas     = "service.replicas"
)

// Kinds that advice is about.
const (
	// KindClaim is the kind of claims of volumes.
	KindClaim = "PersistentVolumeClaim"
	// KindPod is the kind of pods. Advice about them also applies to pods that belong to no job.
	KindPod = "Pod"
)

func waitAdvice(text string) Advice { return Advice{Action: Wait, Text: text} }

// firstInQueue is advice for a job with a reserved start.
var firstInQueue = []Advice{waitAdvice("wait: it is first in line, and starts sooner if there is room sooner")}

func inspectAdvice(text, command string) Advice {
	return Advice{Action: Inspect, Command: command, Text: text + ": " + command}
}

// ForeignDevices is the reason of a pod whose author chose its GPUs.
const ForeignDevices Text = "annotation %s is the scheduler's to write: remove it from the pod, or from the template it is made of"

// ClaimMissing is a claim that is not there.
var ClaimMissing = &Reason{
	Text: "persistentvolumeclaim %q not found", Cause: VolumeMissing, Message: "the namespace has no PersistentVolumeClaim %[1]s",
	Advice: []Advice{
		{Action: CreateObject, Kind: KindClaim, Name: "%[1]s", Text: "create the claim %[1]s in this namespace"},
		{Action: SetField, Field: FieldWorkdirs, Text: "correct its name in the job, in pvc of storage.workdirs"},
	},
}

// ClaimReasons are about claims of volumes.
var ClaimReasons = []*Reason{
	ClaimMissing,
	{Text: "persistentvolumeclaim %q is being deleted", Cause: VolumeMissing, Message: "the PersistentVolumeClaim %[1]s is being deleted", Advice: ClaimMissing.Advice},
	{
		Text: "persistentvolumeclaim %q bound to non-existent persistentvolume %q", Cause: VolumeMissing,
		Message: "the volume %[2]s of the PersistentVolumeClaim %[1]s is gone",
		Advice:  []Advice{{Action: CreateObject, Kind: KindClaim, Name: "%[1]s", Text: "create the claim %[1]s again"}},
	},
	{
		Text: "pod has unbound immediate PersistentVolumeClaims", Cause: VolumeUnbound,
		Message: "a PersistentVolumeClaim of the job is not bound to a volume",
		Advice: []Advice{inspectAdvice("see why; usually no volume matches its class and size, or the storage class has no provisioner",
			"kubectl describe pvc -n %[4]s")},
	},
	{
		Text: "node(s) didn't find available persistent volumes to bind", Cause: VolumeUnbound,
		Message: "no volume that the job's claim could bind is reachable from the nodes that could take it",
		Advice:  []Advice{inspectAdvice("see why; usually no volume matches its class and size", "kubectl describe pvc -n %[4]s")},
	},
	{
		Text: "node(s) didn't match PersistentVolume's node affinity", Also: []Text{"node(s) had volume node affinity conflict"}, Cause: VolumeElsewhere,
		Message: "the job's volume is bound to other nodes or another zone",
		Advice: []Advice{
			{Action: Move, Text: "use a pool in the volume's zone"}, {Action: SetField, Field: FieldWorkdirs, Text: "use another volume"},
		},
	},
}

// Reasons of the plugin Coscheduling for members of a gang.
var (
	GangHasRoomForSome = &Reason{
		Text: "gang: there is room for %d of %d members now, and all start at once", Cause: GangWaiting,
		Message: "there is room for %[1]s of the %[2]s members of the job, which start together or not at all",
		Advice: []Advice{
			waitAdvice("wait until more nodes are free; the job holds no GPUs meanwhile"),
			{Action: SetField, Field: FieldNodes, Text: "ask for fewer nodes, or fewer GPUs of each"},
		},
	}
	GangNeverFits = &Reason{
		Text: "gang: the nodes that suit it have room for %d of %d members, even when they are empty", Cause: GangTooLarge,
		Message: "the nodes that suit the job take %[1]s of its %[2]s members, even when they are empty",
		Advice:  []Advice{{Action: SetField, Field: FieldNodes, Text: "ask for fewer nodes, or fewer GPUs of each, or use a larger pool"}},
	}
	GangTurnedAway = &Reason{
		Text: "gang: a member found no place a moment ago", Cause: GangWaiting,
		// The last two are for members that release their places because another member found none, or lost its own.
		Also:    []Text{"podGroup %s failed recently", GangSiblingRefused, GangSiblingLost},
		Message: "another member of the job found no place, and all start together or not at all",
		Advice: []Advice{
			waitAdvice("wait until more nodes are free; the job holds no GPUs meanwhile"),
		},
	}
	GangUnusable = &Reason{
		Text: "gang: the PodGroup cannot be used: %s", Cause: GangUnreadable, Message: "the PodGroup of the job cannot be used: %[1]s",
		Advice: []Advice{{Action: Resubmit, Kind: "PodGroup",
			Text: "correct the PodGroup, or delete the job and create it again from its file, which makes another one"}},
	}
	GangLacksResource = &Reason{
		Text: "gang: the nodes have less %s free than spec.minResources of the PodGroup asks for", Cause: GangWaiting,
		Message: "the nodes have less %[1]s free than the PodGroup of the job asks for in spec.minResources",
		Advice: []Advice{
			waitAdvice("wait until more nodes are free"),
			{Action: Resubmit, Kind: "PodGroup", Text: "ask for less in spec.minResources of the PodGroup"},
		},
	}
	GangDomainFull = &Reason{
		Text: "gang: no %s has room for all %d members now; the most is %s", Cause: GangTopology,
		Message: "no %[1]s has room for all %[2]s members of the job now, and one has to hold them; the most is %[3]s",
		Advice: []Advice{
			waitAdvice("wait until more nodes are free; the job holds no GPUs meanwhile"),
			{Action: SetField, Field: FieldTopologyMode, Value: "preferred", Text: "take places that lie as close together as there is room for: " +
				FieldTopology + ".mode: preferred"},
		},
	}
	GangHoldsOut = &Reason{
		Text: "gang: no %s has room for all %d members now, and it holds out for one until %s", Cause: GangTopology,
		Message: "no %[1]s has room for all %[2]s members of the job now, and it holds out for one until %[3]s, as its file says",
		Advice:  []Advice{waitAdvice("wait: it starts in the next best places then, and before that if one %[1]s has room")},
	}
	GangDomainTooSmall = &Reason{
		Text: "gang: no %s takes all %d members, even when it is empty; the most is %s", Cause: GangTopology, Never: true,
		Message: "no %[1]s takes all %[2]s members of the job, even when it is empty, and one has to hold them; the most is %[3]s",
		Advice: []Advice{
			{Action: SetField, Field: FieldNodes, Text: "ask for fewer nodes, or fewer GPUs of each"},
			{Action: SetField, Field: FieldTopologyMode, Value: "preferred", Text: "take places that lie as close together as there is room for: " +
				FieldTopology + ".mode: preferred"},
		},
	}
	// For gangs in segments the first value is a ratio, such as 1 of 2.
	GangSegmentsFull = &Reason{
		Text: "gang: only %s segments have room in one %s each now; the most for the next is %s", Cause: GangTopology,
		Message: "only %[1]s segments of the job have room now in one %[2]s each, as they are to lie; the most for the next is %[3]s",
		Advice: []Advice{
			waitAdvice("wait until more nodes are free; the job holds no GPUs meanwhile"),
			{Action: SetField, Field: FieldSegment, Text: "divide it into smaller segments: " + FieldSegment},
			{Action: SetField, Field: FieldTopologyMode, Value: "preferred", Text: "take places that lie as close together as there is room for: " +
				FieldTopology + ".mode: preferred"},
		},
	}
	GangSegmentsHoldOut = &Reason{
		Text: "gang: only %s segments have room in one %s each now, and it holds out for all until %s", Cause: GangTopology,
		Message: "only %[1]s segments of the job have room now in one %[2]s each, and it holds out for all until %[3]s, as its file says",
		Advice:  []Advice{waitAdvice("wait: it starts in the next best places then, and before that if there is one %[2]s for each segment")},
	}
	GangSegmentsTooLarge = &Reason{
		Text: "gang: only %s segments fit into one %s each, even when all are empty; the most for the next is %s", Cause: GangTopology, Never: true,
		Message: "only %[1]s segments of the job fit into one %[2]s each, as they are to lie, even when all are empty; the most for the next is %[3]s",
		Advice: []Advice{
			{Action: SetField, Field: FieldSegment, Text: "divide it into smaller segments: " + FieldSegment},
			{Action: SetField, Field: FieldNodes, Text: "ask for fewer nodes, or fewer GPUs of each"},
			{Action: SetField, Field: FieldTopologyMode, Value: "preferred", Text: "take places that lie as close together as there is room for: " +
				FieldTopology + ".mode: preferred"},
		},
	}
	GangUnlabelled = &Reason{
		Text: "gang: no node that suits it has the label %s, which would name its %s", Cause: GangTopology, Never: true,
		Message: "no node that suits the job has the label %[1]s, which would name its %[2]s, and all its members are to lie in one",
		Advice: []Advice{
			{Action: SetField, Field: FieldTopologyMode, Value: "preferred", Text: "take another level, of which the nodes have labels (gpuctl get labels), or " +
				"places that lie as close together as there is room for: " + FieldTopology + ".mode: preferred"},
			{Action: CorrectNode, Kind: "Node", Field: "%[1]s", Text: "have the administrators label the nodes, where they lie so: kubectl label node NODE %[1]s=NAME"},
		},
	}
	GangTooVaried = &Reason{
		Text: "gang: its members ask for too many different things to find one %s for all", Cause: GangTopology,
		Message: "the members of the job ask for too many different things for the scheduler to find one %[1]s for all",
		Advice:  []Advice{{Action: Resubmit, Kind: "PodGroup", Text: "have the members ask for the same, or for eight different things at most"}},
	}
	GangForeign = &Reason{
		Text:  "gang: members that have no place yet name another scheduler: give all members of the PodGroup the same schedulerName",
		Cause: OtherScheduler, Message: "members of the job name another scheduler, and all start together or not at all",
		Advice: []Advice{{Action: Resubmit, Field: "spec.schedulerName",
			Text: "delete the job, give all its pods the same schedulerName, and submit it again"}},
	}
	GangGated = &Reason{
		Text: "gang: gated pods in the same PodGroup", Cause: SchedulingGated,
		Message: "other members of the job are held back by a scheduling gate, and all start together or not at all",
		Advice:  []Advice{{Action: OpenGate, Text: "wait until what set the gate takes it away, such as a queue or quota system; ask who runs it"}},
	}
	// GangKeptOut applies when pods could be evicted for a gang, but another plugin would still reject its places. It includes that plugin's text.
	GangKeptOut = &Reason{
		Text: "gang: nobody is evicted for it, which would be in vain: %s", Late: true, Cause: RejectedByScheduler,
		Message: "nobody of lower priority is evicted for the job, which could not start in their places: %[1]s",
		Advice: []Advice{
			waitAdvice("wait: it is tried again each minute"),
			{Action: Resubmit, Text: "change what keeps the job out, such as its volumes, its topology spread or its affinity to other pods, and submit it again"},
		},
	}
	// PlaceRefused applies to a pod, and to the members of its gang, that lost its place after a node was found for it. It includes until when
	// nothing is evicted for it, how long that is, and why, in the text of the API server or of the plugin that refused it.
	PlaceRefused = &Reason{
		Text: "refused: nothing is evicted for it until %s, for %s: %s", Late: true, Cause: RefusedAtBinding,
		Message: "a node was found for the job, and refused: %[3]s; nothing is evicted for it until %[1]s",
		Advice: []Advice{
			{Action: Resubmit, Text: "change what the refusal names, in the job or where it is set, such as a policy or a webhook for pods/binding, or a volume; it is tried again by itself"},
		},
	}
	// GangOutside applies to all members of a gang for which there is room, but one of which another plugin rejects.
	GangOutside = &Reason{
		Text: "gang: the nodes have room for all, and a member finds no place beside the others: %s", Late: true, Cause: RejectedByScheduler,
		Message: "the nodes have room for all members of the job, and one finds no place beside the others: %[1]s",
		Advice: []Advice{
			{Action: Resubmit, Text: "change what keeps the member out, such as its affinity to other pods, its topology spread, its ports or its volumes, and submit it again"},
			waitAdvice("wait: it is tried again when the cluster changes, and each minute at least"),
		},
	}
	// GangGuarded applies when only their min-runtime prevents the eviction of pods for a gang.
	GangGuarded = &Reason{
		Text: "gang: nobody is evicted for it yet: pods of lower priority have not run for their min-runtime, the first of them until %s",
		Late: true, Cause: GangWaiting,
		Message: "pods of lower priority may not be evicted before they have run for their min-runtime, the first of them until %[1]s",
		Advice:  []Advice{waitAdvice("wait: it is tried again then")},
	}
	// StartReserved applies to the first job in the queue, which waits until the pods on its nodes end.
	StartReserved = &Reason{
		Text: "promised: %d node(s) are kept for it, and it starts there by %s",
		Late: true, Cause: WaitingForReservedStart,
		Message: "%[1]s node(s) are kept for the job, which starts there by %[2]s: those who run there have ended by then",
		Advice:  firstInQueue,
	}
	// StartReservedAsExpected is the same if some of them have no deadline, and are expected to end by how long others have run.
	StartReservedAsExpected = &Reason{
		Text: "promised: %d node(s) are kept for it, and it is expected to start there by %s",
		Late: true, Cause: WaitingForReservedStart,
		Message: "%[1]s node(s) are kept for the job, which is expected to start there by %[2]s: those who run there end by then, if they run no longer than nearly all before them",
		Advice:  firstInQueue,
	}
	// StartReservedIn and StartReservedInAsExpected apply to a gang that names a level of the topology, and will be in one domain such as "rack r1".
	StartReservedIn = &Reason{
		Text: "promised: %d node(s) of %s are kept for it, and it starts there by %s",
		Late: true, Cause: WaitingForReservedStart,
		Message: "%[1]s node(s) of %[2]s are kept for the job, which starts there by %[3]s: those who run there have ended by then",
		Advice:  firstInQueue,
	}
	StartReservedInAsExpected = &Reason{
		Text: "promised: %d node(s) of %s are kept for it, and it is expected to start there by %s",
		Late: true, Cause: WaitingForReservedStart,
		Message: "%[1]s node(s) of %[2]s are kept for the job, which is expected to start there by %[3]s: those who run there end by then, if they run no longer than nearly all before them",
		Advice:  firstInQueue,
	}
	// EvictionPending applies while notified victims have time to save their work, for a single pod as well.
	EvictionPending = &Reason{
		Text: "pods of lower priority save their work and leave for it by %s at the latest",
		Late: true, Cause: Preempting,
		Message: "pods of lower priority were told to leave for the job; they save their work, and there is room for it by %[1]s at the latest",
		Advice:  []Advice{waitAdvice("wait: the job starts by itself as soon as they have left")},
	}
	GangUnknown = &Reason{
		Text: "PodGroup not found", Cause: GangIncomplete, Message: "the pod names a PodGroup that does not exist",
		Advice: []Advice{{Action: CreateAgain, Text: "complete the job: gpuctl create with the same file once more"}},
	}
)

// Reasons of members of a gang, with values that only a diagnosis uses.
const (
	// GangTooFew includes how many members exist, and how many are required.
	GangTooFew Text = "cannot find enough sibling pods, current pods number: %d, minMember of group: %d"
	// GangWhole applies to each member without a place.
	GangWhole Text = "gang: the other members give up their places until all fit at once"
	// GangEvictsNone applies when pods would have to be evicted for one member.
	GangEvictsNone Text = "gang: nobody is evicted for one member of it"
	// GangPlannedElsewhere applies to nodes that the plan of the gang does not use for a member.
	GangPlannedElsewhere Text = "gang: it goes elsewhere by the plan for its members"
	// GangSiblingRefused and GangSiblingLost apply to members that release their places.
	GangSiblingRefused Text = "optimistic rejection in PostFilter"
	GangSiblingLost    Text = "rejection in Unreserve"
)

// MissingMembers reads a verdict that a gang was incomplete at that time: how many members existed, and how many are required. It returns false for
// any other verdict.
func MissingMembers(verdict string) (there, all int, ok bool) {
	values, ok := GangTooFew.ParseValues(verdict)
	if !ok {
		return 0, 0, false
	}
	there, _ = strconv.Atoi(values[0])
	all, _ = strconv.Atoi(values[1])
	return there, all, true
}

// GangReasons are about the room for members of a gang, which nodes show as well.
var GangReasons = []*Reason{GangHasRoomForSome, GangNeverFits, GangTurnedAway}

// RefusalReasons are why a pod lost its place after a node was found for it. They take precedence over everything else, whatever room there is.
var RefusalReasons = []*Reason{PlaceRefused}

// EvictionReasons are the reasons why nothing is evicted for a pod, or not yet.
var EvictionReasons = []*Reason{GangKeptOut, GangOutside, GangGuarded, StartReserved, StartReservedAsExpected, StartReservedIn, StartReservedInAsExpected, EvictionPending, QuotaGuarded, QuotaBudgeted, QuotaKeptOut}

// PodReasons are about the pod itself, whatever the node. While they apply, the scheduler considers no node.
var PodReasons = []*Reason{
	{
		Text: "resourceclaim %q not found", Cause: DeviceClaim, Message: "the namespace has no ResourceClaim %[1]s",
		Advice: []Advice{{Action: CreateObject, Kind: "ResourceClaim", Name: "%[1]s", Text: "create it, or correct its name"}},
	},
	QuotaUsed, QuotaTooSmall, GangUnusable, GangLacksResource, GangDomainFull, GangHoldsOut, GangDomainTooSmall, GangSegmentsFull, GangSegmentsHoldOut, GangSegmentsTooLarge, GangUnlabelled, GangTooVaried, GangForeign, GangGated, GangUnknown,
}

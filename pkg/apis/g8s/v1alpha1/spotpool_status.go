package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// SpotPoolStatus is how a SpotPool is. What it says of machines is also what the controller remembers of them: it is written
// before anything is asked of the cloud.
type SpotPoolStatus struct {
	// ObservedGeneration is the generation of the spec that this follows from.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Size is how many machines there are or are being bought, but for those that are to go. Joined is how many of these are
	// ready nodes.
	//
	// +optional
	Size int32 `json:"size"`
	// +optional
	Joined int32 `json:"joined"`
	// Machines are all machines.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	Machines []SpotMachine `json:"machines,omitempty"`
	// Offers are the types and zones that have failed of late.
	//
	// +optional
	// +listType=atomic
	Offers []SpotOffer `json:"offers,omitempty"`
	// Serial is the number of the next machine.
	//
	// +optional
	Serial int64 `json:"serial,omitempty"`
	// Failures is how many calls of the cloud have failed in a row, and RetryAfter when it is asked again.
	//
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// +optional
	RetryAfter *metav1.Time `json:"retryAfter,omitempty"`
	// ObservedSecrets are the versions of the Secrets that this follows from. When one changes, what has failed is tried at once.
	//
	// +optional
	// +listType=map
	// +listMapKey=name
	ObservedSecrets []ObservedSecret `json:"observedSecrets,omitempty"`
	// Joining says whether machines become nodes, and when the next is bought where they do not.
	//
	// +optional
	Joining *SpotJoining `json:"joining,omitempty"`
	// Conditions are Ready, CloudAnswers, CapacityAvailable and MachinesJoin.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// The types of a SpotPool's conditions, beside Ready.
const (
	// ConditionReady says whether the minimum of machines are ready nodes.
	ConditionReady = "Ready"
	// ConditionCloudAnswers says whether the cloud does what is asked of it.
	ConditionCloudAnswers = "CloudAnswers"
	// ConditionCapacityAvailable says whether some type in some zone can be bought.
	ConditionCapacityAvailable = "CapacityAvailable"
	// ConditionMachinesJoin says whether machines that were bought become ready nodes.
	ConditionMachinesJoin = "MachinesJoin"
)

// ObservedSecret is a version of a Secret.
type ObservedSecret struct {
	Name string `json:"name"`
	// ResourceVersion is that of its object, which says nothing of what is in it.
	ResourceVersion string `json:"resourceVersion"`
}

// SpotJoining is whether the machines of a SpotPool become nodes.
type SpotJoining struct {
	// Recipe tells what machines are made by, the template and joinSeconds, from what they were made by before.
	//
	// +optional
	Recipe string `json:"recipe,omitempty"`
	// LastJoined is when a machine became a ready node last, as long as none has failed to since.
	//
	// +optional
	LastJoined *metav1.Time `json:"lastJoined,omitempty"`
	// Failures is how often in a row machines were bought that did not become ready nodes, Reason why the last one did not as far as
	// it is known, and RetryAfter when the next machine is bought: one alone, until one has joined.
	//
	// +optional
	Failures int32 `json:"failures,omitempty"`
	// +optional
	Reason string `json:"reason,omitempty"`
	// +optional
	RetryAfter *metav1.Time `json:"retryAfter,omitempty"`
	// Offers are the types and zones whose machines did not, while none there did.
	//
	// +optional
	// +listType=atomic
	Offers []UnjoinedOffer `json:"offers,omitempty"`
}

// UnjoinedOffer is a type in a zone whose machines do not become ready nodes.
type UnjoinedOffer struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	// Failures is how often in a row, and RetryAfter when the next is bought there, alone.
	Failures   int32       `json:"failures"`
	RetryAfter metav1.Time `json:"retryAfter"`
}

// SpotMachine is a machine, from before it is bought until nothing of it is left.
type SpotMachine struct {
	// Name is also that of its host and node. The token under which it is bought follows from it.
	Name string `json:"name"`
	// InstanceType and Zone are what is bought.
	//
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// +optional
	Zone string `json:"zone,omitempty"`
	// Instance is what the cloud calls it; "" while that is not known.
	//
	// +optional
	Instance string `json:"instance,omitempty"`
	// +optional
	PrivateIP string `json:"privateIP,omitempty"`
	// PublicIP is its public address, "" while it has none.
	//
	// +optional
	PublicIP string `json:"publicIP,omitempty"`
	// State is Launching, Starting, Joined, Leaving or Gone.
	//
	// +optional
	State string `json:"state,omitempty"`
	// Requested is when it was decided to buy it.
	Requested metav1.Time `json:"requested"`
	// Asked is when the cloud was last asked for it.
	//
	// +optional
	Asked *metav1.Time `json:"asked,omitempty"`
	// Listed says that the cloud has shown it once, and MissingSince since when it has not shown it any more.
	//
	// +optional
	Listed bool `json:"listed,omitempty"`
	// +optional
	MissingSince *metav1.Time `json:"missingSince,omitempty"`
	// JoinedAt is when its node became ready first, IdleSince since when no job runs there.
	//
	// +optional
	JoinedAt *metav1.Time `json:"joinedAt,omitempty"`
	// +optional
	IdleSince *metav1.Time `json:"idleSince,omitempty"`
	// Leaving is why it is to go.
	//
	// +optional
	Leaving *SpotLeaving `json:"leaving,omitempty"`
}

// The states of machines.
const (
	MachineLaunching = "Launching"
	MachineStarting  = "Starting"
	MachineJoined    = "Joined"
	MachineLeaving   = "Leaving"
	MachineGone      = "Gone"
)

// SpotLeaving is why and since when a machine is to go.
type SpotLeaving struct {
	// Reason is Interrupted, Excess, Idle, Deleted, NeverJoined, Failed or Gone.
	Reason string      `json:"reason"`
	Since  metav1.Time `json:"since"`
	// End is when the cloud takes it, where it has said so.
	//
	// +optional
	End *metav1.Time `json:"end,omitempty"`
	// Ending says that the cloud has been told to end it, or is about to be: it stays no more.
	//
	// +optional
	Ending bool `json:"ending,omitempty"`
}

// The reasons why machines leave.
const (
	// LeavingInterrupted is that of a machine that its cloud takes back.
	LeavingInterrupted = "Interrupted"
	// LeavingExcess is that of one beyond the maximum, LeavingIdle of one beyond the minimum that runs nothing.
	LeavingExcess = "Excess"
	LeavingIdle   = "Idle"
	// LeavingDeleted is that of all machines of a SpotPool that is deleted.
	LeavingDeleted = "Deleted"
	// LeavingNeverJoined is that of one that did not become a ready node in time, LeavingFailed of one that its cloud could not start,
	// or that was shut down.
	LeavingNeverJoined = "NeverJoined"
	LeavingFailed      = "Failed"
	// LeavingGone is that of one that has ended.
	LeavingGone = "Gone"
)

// SpotOffer is a type in a zone that was not to be had.
type SpotOffer struct {
	InstanceType string `json:"instanceType"`
	Zone         string `json:"zone"`
	// Failures is how often in a row, Reason the last one, and RetryAfter when it is tried again.
	Failures   int32       `json:"failures"`
	Reason     string      `json:"reason"`
	RetryAfter metav1.Time `json:"retryAfter"`
}

// What a SpotPool writes on nodes and pods, and reads there.
const (
	// LabelSpotPool is, on a node, the SpotPool of its machine.
	LabelSpotPool = "g8s.host/spot-pool"
	// TaintLeaving keeps new pods, by the effect NoSchedule, from the node of a machine that is to go. Its value is the reason.
	TaintLeaving = "g8s.host/leaving"
	// TaintJoining may be set by a kubelet as its node registers, so that no pods come before the node has the labels of its
	// pool. The controller takes it away then.
	TaintJoining = "g8s.host/joining"
	// OutOfServiceGone is the value of Kubernetes' taint node.kubernetes.io/out-of-service on the node of a machine that has
	// ended by the word of its cloud.
	OutOfServiceGone = "instance-gone"
	// AnnotationInterruption is, on a node, when its cloud takes the machine back, in RFC 3339. Whoever hears of that writes it.
	AnnotationInterruption = "g8s.host/interruption"
	// AnnotationCheckpoint, on a pod, with the value [True], asks to be told when its state is to be saved.
	AnnotationCheckpoint = "g8s.host/checkpoint"
	// AnnotationCheckpointNow is, on such a pod, by when its state is to be saved, in RFC 3339. The pod reads it from a volume
	// of the downward API.
	AnnotationCheckpointNow = "g8s.host/checkpoint-now"
	// FinalizerSpotPool keeps a SpotPool until nothing of it is left in the cloud.
	FinalizerSpotPool = "g8s.host/spot-pool"
)

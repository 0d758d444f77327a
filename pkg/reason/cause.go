package reason

// Cause is why a job is in its state, in one word. The set is closed.
type Cause string

// States of the job itself.
const (
	Running   Cause = "Running"
	Succeeded Cause = "Succeeded"
	Failed    Cause = "Failed"
	Deleted   Cause = "Deleted"
	Suspended Cause = "Suspended"
	Cancelled Cause = "Cancelled"
	// Incomplete is a job of which objects are missing.
	Incomplete Cause = "Incomplete"
	// NotificationFailed is a failed notification about a job, in addition to any other cause.
	NotificationFailed Cause = "NotTold"
	// NodeLost is a job on a node that is not ready or gone, so that it is unknown whether it still runs.
	NodeLost Cause = "NodeLost"
	// BrokenGPU is a job that holds a GPU that was found broken later.
	BrokenGPU Cause = "BrokenGPU"
	// EvictionNotified is a job that is about to be preempted, and has time to save its work.
	EvictionNotified Cause = "ToldToLeave"
	// Preempted is a job preempted by a pod of higher priority, Evicted one whose pod was evicted.
	Preempted Cause = "Preempted"
	Evicted   Cause = "Evicted"
	// Replacing is a job whose pod was deleted and is still terminating.
	Replacing Cause = "Replacing"
)

// Causes for a missing pod: the API server rejects it.
const (
	QuotaExceeded         Cause = "QuotaExceeded"
	NoSuchPriorityClass   Cause = "NoSuchPriorityClass"
	NoSuchServiceAccount  Cause = "NoSuchServiceAccount"
	LimitRangeViolated    Cause = "LimitRangeViolated"
	PodSecurityViolated   Cause = "PodSecurityViolated"
	RefusedByPolicy       Cause = "RefusedByPolicy"
	RefusedByAPIServer    Cause = "RefusedByAPIServer"
	WaitingForControllers Cause = "WaitingForControllers"
	// GPUQuotaReached is a job whose namespace uses all GPUs that a GPUQuota allows.
	GPUQuotaReached Cause = "GPUQuotaReached"
	// GPUsLent is a job whose namespace has a guarantee on GPUs that others borrow, BeyondGuarantee one that would itself borrow.
	GPUsLent        Cause = "GPUsLent"
	BeyondGuarantee Cause = "BeyondGuarantee"
	// NamespaceTerminating is a namespace that is being deleted, in which nothing can start.
	NamespaceTerminating Cause = "NamespaceTerminating"
	// WebhookFailing is an admission webhook that does not answer.
	WebhookFailing Cause = "WebhookFailing"
)

// Why the scheduler does not look at the pod.
const (
	SchedulingGated Cause = "SchedulingGated"
	// WaitsForJobs is a job that starts after others, which have not ended as required.
	WaitsForJobs Cause = "WaitsForJobs"
	// HeldByKueue is a job that Kueue keeps suspended until it admits it.
	HeldByKueue      Cause = "HeldByKueue"
	OtherScheduler   Cause = "OtherScheduler"
	SchedulerDown    Cause = "SchedulerDown"
	WaitingForTurn   Cause = "WaitingForTurn"
	MalformedRequest Cause = "MalformedRequest"
	// Preempting is a pod that waits until its victims on a node have terminated.
	Preempting Cause = "Preempting"
)

// Why no node is of the right kind.
const (
	NoSuchPool      Cause = "NoSuchPool"
	NoSuchType      Cause = "NoSuchType"
	TypeMisspelt    Cause = "TypeMisspelt"
	TypeInOtherPool Cause = "TypeInOtherPool"
	TypeNotServed   Cause = "TypeNotServed"
)

// Causes why a gang, the pods of a job on several nodes, does not start.
const (
	GangWaiting    Cause = "GangWaiting"
	GangTooLarge   Cause = "GangTooLarge"
	GangIncomplete Cause = "GangIncomplete"
	// GangUnreadable is a PodGroup that the scheduler cannot interpret as a gang.
	GangUnreadable Cause = "GangUnreadable"
	// GangTopology is a gang that requires one domain of the topology, of which none has room for all.
	GangTopology Cause = "GangTopology"
	// DisruptionBudget is a gang for which pods of lower priority would leave, if their PodDisruptionBudget allowed it.
	DisruptionBudget Cause = "DisruptionBudget"
)

// Causes on a node of the right pool and type.
const (
	TooManyGPUs   Cause = "TooManyGPUs"
	NoGPUs        Cause = "NoGPUs"
	GPUMemory     Cause = "GPUMemory"
	UnhealthyGPUs Cause = "UnhealthyGPUs"
	BadInventory  Cause = "BadInventory"
	NotShared     Cause = "NotShared"
	Busy          Cause = "Busy"
	Fragmented    Cause = "Fragmented"
	NotReady      Cause = "NotReady"
	Cordoned      Cause = "Cordoned"
	Tainted       Cause = "Tainted"
	// KeptOff is about nodes that gpu-controller closes to new pods: they failed, or their pool does not accept them.
	KeptOff Cause = "KeptOff"
	// AgentAway is about nodes whose gpu-agent does not give out GPUs: it does not run, or kubelet asks another device plugin.
	AgentAway Cause = "AgentAway"
	// ReservedNode is about nodes that a GPUReservation reserves for others, or for maintenance.
	ReservedNode        Cause = "Reserved"
	NodeSelector        Cause = "NodeSelector"
	CPUShort            Cause = "CPUShort"
	MemoryShort         Cause = "MemoryShort"
	ResourceShort       Cause = "ResourceShort"
	PodLimit            Cause = "PodLimit"
	RoomNow             Cause = "RoomNow"
	RejectedByScheduler Cause = "RejectedByScheduler"
)

// Causes that only the scheduler knows.
const (
	PodAffinity     Cause = "PodAffinity"
	PodAntiAffinity Cause = "PodAntiAffinity"
	// AntiAffinityOfOthers is about nodes that the anti-affinity of existing pods closes to the job.
	AntiAffinityOfOthers Cause = "AntiAffinityOfOthers"
	TopologySpread       Cause = "TopologySpread"
	HostPort             Cause = "HostPort"
	VolumeMissing        Cause = "VolumeMissing"
	VolumeUnbound        Cause = "VolumeUnbound"
	VolumeElsewhere      Cause = "VolumeElsewhere"
	VolumeLimit          Cause = "VolumeLimit"
	DeviceClaim          Cause = "DeviceClaim"
	// RefusedAtBinding is a pod that lost its place after a node was found for it.
	RefusedAtBinding Cause = "RefusedAtBinding"
	// DeviceClaimMissing is a claim of devices that does not exist, or has not been created from its template yet.
	DeviceClaimMissing Cause = "DeviceClaimMissing"
	// KeptWhole is about idle nodes that are kept for pods that use a whole one.
	KeptWhole Cause = "KeptWhole"
	// StartReservedForFirst is about room that is reserved for the first job in the queue, WaitingForReservedStart that job.
	StartReservedForFirst   Cause = "PromisedToFirst"
	WaitingForReservedStart Cause = "WaitingForPromise"
)

// Why a pod that has a node does not run.
const (
	ImagePull       Cause = "ImagePull"
	ContainerConfig Cause = "ContainerConfig"
	// ContainerStart is a container whose program the node cannot start.
	ContainerStart Cause = "ContainerStart"
	Crashing       Cause = "Crashing"
	OutOfMemory    Cause = "OutOfMemory"
	VolumeMount    Cause = "VolumeMount"
	Starting       Cause = "Starting"
	// Retrying is a job whose pod failed, and for which Kubernetes creates the next one after a while.
	Retrying     Cause = "Retrying"
	ProbeFailing Cause = "ProbeFailing"
)

// Unknown is any other cause.
const Unknown Cause = "Unknown"

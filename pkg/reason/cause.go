package reason

// Cause is why a job is where it is, in one word. The set is closed.
type Cause string

// What the job itself has come to.
const (
	Running   Cause = "Running"
	Succeeded Cause = "Succeeded"
	Failed    Cause = "Failed"
	Deleted   Cause = "Deleted"
	Suspended Cause = "Suspended"
	Cancelled Cause = "Cancelled"
	// Incomplete is a job of which objects are missing.
	Incomplete Cause = "Incomplete"
	// NotTold is that nobody was told how a job went, beside all else.
	NotTold Cause = "NotTold"
	// NodeLost is a job on a node that is not ready or gone, so that nobody knows whether it still runs.
	NodeLost Cause = "NodeLost"
	// BrokenGPU is a job that holds a GPU which was found broken after it got it.
	BrokenGPU Cause = "BrokenGPU"
	// ToldToLeave is a job that is to leave for one of higher priority, and has time to save its work.
	ToldToLeave Cause = "ToldToLeave"
	// Preempted is a job that a pod of higher priority has pushed aside, Evicted one whose pod was told to leave.
	Preempted Cause = "Preempted"
	Evicted   Cause = "Evicted"
	// Replacing is a job whose pod was deleted and is still ending.
	Replacing Cause = "Replacing"
)

// Why there is no pod: the API server refuses it.
const (
	QuotaExceeded         Cause = "QuotaExceeded"
	NoSuchPriorityClass   Cause = "NoSuchPriorityClass"
	NoSuchServiceAccount  Cause = "NoSuchServiceAccount"
	LimitRangeViolated    Cause = "LimitRangeViolated"
	PodSecurityViolated   Cause = "PodSecurityViolated"
	RefusedByPolicy       Cause = "RefusedByPolicy"
	RefusedByAPIServer    Cause = "RefusedByAPIServer"
	WaitingForControllers Cause = "WaitingForControllers"
	// GPUQuotaReached is a job whose namespace has all the GPUs that a GPUQuota lets it have.
	GPUQuotaReached Cause = "GPUQuotaReached"
	// GPUsLent is a job whose namespace is guaranteed GPUs that others borrow, BeyondGuarantee one that would borrow itself.
	GPUsLent        Cause = "GPUsLent"
	BeyondGuarantee Cause = "BeyondGuarantee"
	// NamespaceTerminating is a namespace that is being deleted, in which nothing starts any more.
	NamespaceTerminating Cause = "NamespaceTerminating"
	// WebhookFailing is an admission webhook that does not answer.
	WebhookFailing Cause = "WebhookFailing"
)

// Why the scheduler does not look at the pod.
const (
	SchedulingGated Cause = "SchedulingGated"
	// WaitsForJobs is a job that starts after others, which have not ended as it asks.
	WaitsForJobs     Cause = "WaitsForJobs"
	OtherScheduler   Cause = "OtherScheduler"
	SchedulerDown    Cause = "SchedulerDown"
	WaitingForTurn   Cause = "WaitingForTurn"
	MalformedRequest Cause = "MalformedRequest"
	// Preempting is a pod for which others were told to leave a node, and it waits until they have.
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

// Why a gang, the pods of a job on several nodes, does not start.
const (
	GangWaiting    Cause = "GangWaiting"
	GangTooLarge   Cause = "GangTooLarge"
	GangIncomplete Cause = "GangIncomplete"
	// GangUnreadable is a PodGroup that the scheduler can make no gang of.
	GangUnreadable Cause = "GangUnreadable"
	// GangTopology is a gang that is to lie in one domain of the topology, of which none has room for all.
	GangTopology Cause = "GangTopology"
)

// What stands against a node of the right pool and type.
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
	// KeptOff is about nodes that gpu-controller keeps new pods off: they failed, or their pool does not take them.
	KeptOff Cause = "KeptOff"
	// ReservedNode is about nodes that a GPUReservation keeps for others, or for maintenance.
	ReservedNode        Cause = "Reserved"
	NodeSelector        Cause = "NodeSelector"
	CPUShort            Cause = "CPUShort"
	MemoryShort         Cause = "MemoryShort"
	ResourceShort       Cause = "ResourceShort"
	PodLimit            Cause = "PodLimit"
	RoomNow             Cause = "RoomNow"
	RejectedByScheduler Cause = "RejectedByScheduler"
)

// What the scheduler alone knows.
const (
	PodAffinity     Cause = "PodAffinity"
	PodAntiAffinity Cause = "PodAntiAffinity"
	// AntiAffinityOfOthers is about nodes that pods which are there keep the job from.
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
	// DeviceClaimMissing is a claim of devices that is not there, or not made yet of its template.
	DeviceClaimMissing Cause = "DeviceClaimMissing"
	// KeptWhole is about idle nodes that only pods which take a whole one get.
	KeptWhole Cause = "KeptWhole"
	// PromisedToFirst is about room that a job which comes first was promised, WaitingForPromise that job.
	PromisedToFirst   Cause = "PromisedToFirst"
	WaitingForPromise Cause = "WaitingForPromise"
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
	// Retrying is a job whose pod has failed, and whose next one Kubernetes creates after a while.
	Retrying     Cause = "Retrying"
	ProbeFailing Cause = "ProbeFailing"
)

// Unknown is what nothing above explains.
const Unknown Cause = "Unknown"

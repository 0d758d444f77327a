package diagnosis

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
)

// Why the scheduler does not look at the pod.
const (
	SchedulingGated  Cause = "SchedulingGated"
	OtherScheduler   Cause = "OtherScheduler"
	SchedulerDown    Cause = "SchedulerDown"
	WaitingForTurn   Cause = "WaitingForTurn"
	MalformedRequest Cause = "MalformedRequest"
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
)

// What stands against a node of the right pool and type.
const (
	TooManyGPUs         Cause = "TooManyGPUs"
	NoGPUs              Cause = "NoGPUs"
	GPUMemory           Cause = "GPUMemory"
	UnhealthyGPUs       Cause = "UnhealthyGPUs"
	Busy                Cause = "Busy"
	Fragmented          Cause = "Fragmented"
	NotReady            Cause = "NotReady"
	Cordoned            Cause = "Cordoned"
	Tainted             Cause = "Tainted"
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
	TopologySpread  Cause = "TopologySpread"
	HostPort        Cause = "HostPort"
	VolumeMissing   Cause = "VolumeMissing"
	VolumeUnbound   Cause = "VolumeUnbound"
	VolumeElsewhere Cause = "VolumeElsewhere"
	VolumeLimit     Cause = "VolumeLimit"
	DeviceClaim     Cause = "DeviceClaim"
	// KeptWhole is about idle nodes that only pods which take a whole one get.
	KeptWhole Cause = "KeptWhole"
)

// Why a pod that has a node does not run.
const (
	ImagePull       Cause = "ImagePull"
	ContainerConfig Cause = "ContainerConfig"
	Crashing        Cause = "Crashing"
	OutOfMemory     Cause = "OutOfMemory"
	VolumeMount     Cause = "VolumeMount"
	Starting        Cause = "Starting"
	// Retrying is a job whose pod has failed, and whose next one Kubernetes creates after a while.
	Retrying     Cause = "Retrying"
	ProbeFailing Cause = "ProbeFailing"
)

// Unknown is what nothing above explains.
const Unknown Cause = "Unknown"

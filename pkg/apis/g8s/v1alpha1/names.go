// Package v1alpha1 is the API group g8s.host: every label, annotation and resource name that this
// project reads or writes on Kubernetes objects, in one place, and our own kinds. Aliases are read; our names are written.
//
// +kubebuilder:object:generate=true
// +groupName=g8s.host
package v1alpha1

import "slices"

// GroupName is the API group of our custom resources and the prefix of our labels.
const GroupName = "g8s.host"

// The scheduler profiles that place GPU workloads: those of the configuration that is shipped, which the admission policies list, too.
const (
	// SchedulerName is the one that gpuctl's jobs name.
	SchedulerName = "gpu-scheduler"
	// SchedulerPluginsName is the one that KubeRay writes on pods with --batch-scheduler=scheduler-plugins, whatever their YAML names. It is configured
	// as the other.
	SchedulerPluginsName = "scheduler-plugins-scheduler"
)

// SchedulerNames returns the names of all profiles.
func SchedulerNames() []string { return []string{SchedulerName, SchedulerPluginsName} }

// IsOurScheduler reports whether a pod that names this scheduler is placed by ours.
func IsOurScheduler(name string) bool { return slices.Contains(SchedulerNames(), name) }

// Labels of nodes.
const (
	// LabelPool is the pool a node is in, and its only source of truth. A node without it is in [DefaultPool].
	LabelPool = "g8s.host/pool"
	// LabelGPUType is the model of a node's GPUs, such as A100-80G. Matching is exact.
	LabelGPUType = "g8s.host/gpu-type"
	// LabelAccelerator is read as an alias of LabelGPUType, before LabelNVIDIAProduct.
	LabelAccelerator = "accelerator"
	// LabelNVIDIAProduct is what NVIDIA's GPU feature discovery writes; the last alias of LabelGPUType before those of clouds.
	LabelNVIDIAProduct = "nvidia.com/gpu.product"
	// LabelNVIDIAMemory is the memory of each GPU in MiB, as GPU feature discovery writes it.
	LabelNVIDIAMemory = "nvidia.com/gpu.memory"
	// LabelNVIDIACount is the number of GPUs, as GPU feature discovery writes it.
	LabelNVIDIACount = "nvidia.com/gpu.count"
	// LabelNVIDIAReplicas is how many pods NVIDIA's device plugin gives one GPU, each as one [ResourceGPU].
	LabelNVIDIAReplicas = "nvidia.com/gpu.replicas"
	// LabelNVIDIASharing is by what they share it: time-slicing, mps or none.
	LabelNVIDIASharing = "nvidia.com/gpu.sharing-strategy"
	// LabelNVIDIAMIGStrategy, with the value single, says that each [ResourceGPU] is a MIG slice, if the product names a profile.
	LabelNVIDIAMIGStrategy = "nvidia.com/mig.strategy"
	// LabelNVIDIAClique is "<cluster UUID>.<clique ID>": the NVLink domain and the partition in it.
	LabelNVIDIAClique = "nvidia.com/gpu.clique"
	// LabelInterconnect is how a node's GPUs reach each other: [InterconnectNVLink] or [InterconnectPCIe].
	LabelInterconnect = "gpu-interconnect"
	// LabelMemory is the memory of each GPU as a quantity, such as 80Gi.
	LabelMemory = "gpu-memory"
	// LabelCount is the number of GPUs of a node.
	LabelCount = "gpu-count"
	// LabelRack is the rack a node stands in.
	LabelRack = "g8s.host/rack"
	// LabelSharing says how a node's GPUs are shared; [SharingMemory] is its only value.
	LabelSharing = "g8s.host/gpu-sharing"
	// LabelAgent, with the value [True], has the node agent run on a node.
	LabelAgent = "g8s.host/gpu-agent"
)

// OperatorLabels are the labels by which NVIDIA's GPU Operator pauses what uses the driver on a node: the first since 26.7, the second before.
var OperatorLabels = []string{"nvidia.com/gpu.deploy.client", "nvidia.com/gpu.deploy.dcgm"}

// OperatorPauses begins the values that pause: paused-for-driver-upgrade and paused-for-mig-change.
const OperatorPauses = "paused-for-"

// GPUTypeLabels lists the node labels that name a GPU type, the one that wins first. Those of clouds come last: they leave out the memory, or spell
// the model in their own way.
var GPUTypeLabels = []string{
	LabelGPUType, LabelAccelerator, LabelNVIDIAProduct,
	"cloud.google.com/gke-accelerator",    // GKE, on each node pool with GPUs: nvidia-tesla-t4 (cloud.google.com/kubernetes-engine/docs/how-to/gpus)
	"karpenter.k8s.aws/instance-gpu-name", // Karpenter on AWS: t4 (karpenter.sh/docs/concepts/scheduling, well-known labels)
	"eks.amazonaws.com/instance-gpu-name", // EKS Auto Mode: t4 (docs.aws.amazon.com/eks/latest/userguide/ml-workload-placement.html)
	"k8s.amazonaws.com/accelerator",       // EKS with the cluster autoscaler, by who makes the node group: nvidia-tesla-t4 (autoscaler, cloudprovider/aws)
	"gpu.nvidia.com/class",                // CoreWeave: A100_NVLINK_80GB (SkyPilot, sky/provision/kubernetes/utils.py, CoreWeaveLabelFormatter)
	"karpenter.azure.com/sku-gpu-name",    // AKS with node auto-provisioning: T4 (karpenter-provider-azure, well-known labels)
}

// NoGPUType is a value of [LabelAccelerator] that names no type: AKS writes it on each node with NVIDIA's GPUs, whatever their model.
const NoGPUType = "nvidia"

// Values of node labels.
const (
	// DefaultPool is the pool of nodes that carry no LabelPool, and of GPU pods that ask for none.
	DefaultPool = "default"
	// InterconnectNVLink is the value of LabelInterconnect for GPUs linked by NVLink.
	InterconnectNVLink = "nvlink"
	// InterconnectPCIe is the value of LabelInterconnect for GPUs that only share PCIe.
	InterconnectPCIe = "pcie"
	// SharingMemory is the value of LabelSharing for GPUs shared by memory.
	SharingMemory = "memory"
)

// AnnotationInventory is, on a node, the JSON inventory of its GPUs, written by the node agent.
const AnnotationInventory = "g8s.host/gpu-inventory"

// AnnotationSlices is, on a node, its MIG slices and which pod has each; pkg/gpu has the format. The node agent writes it.
const AnnotationSlices = "g8s.host/gpu-slices"

// Conditions of nodes, written by the node agent.
const (
	// ConditionAgentReady tells whether containers of the node get the cards that the scheduler chooses.
	ConditionAgentReady = "GPUAgentReady"
	// ConditionGPUsHealthy tells whether all cards of the node may be used.
	ConditionGPUsHealthy = "GPUsHealthy"
	// ReasonNoAgent is the reason of both where the node is not to have an agent any more, and ReasonAgentSilent where it is to have one and
	// nothing was heard of it for too long.
	ReasonNoAgent     = "NoAgent"
	ReasonAgentSilent = "AgentSilent"
	// ReasonPaused is the reason of the first while NVIDIA's operator has paused what uses the driver.
	ReasonPaused = "Paused"
	// ReasonServing is the reason of the first where it is true, and ReasonReporting where the agent reports GPUs and another program allocates them.
	ReasonServing   = "Serving"
	ReasonReporting = "Reporting"
	// ReasonUnfit is the reason of the first where the runtime or kubelet cannot give containers their cards, ReasonOtherPlugin where kubelet asks
	// another device plugin, and ReasonPodRejected where kubelet has rejected a pod for its cards, as it does while the agent is away.
	ReasonUnfit       = "Unfit"
	ReasonOtherPlugin = "OtherPlugin"
	ReasonPodRejected = "PodRejected"
)

// ReasonRejectedByKubelet is why a pod counts as disrupted that kubelet has rejected for its GPUs.
const ReasonRejectedByKubelet = "RejectedByKubelet"

// EventMovedFromBrokenGPU is the reason of the event on a pod that gpu-controller has leave, as a card of it or of its gang was found broken.
const EventMovedFromBrokenGPU = "MovedFromBrokenGPU"

// ConditionResumes says of a pod that it comes in the place of one that left when it was told to, and since when. The scheduler writes it,
// for who leads after it: pods are tried in that order.
const ConditionResumes = "g8s.host/Resumes"

// TaintMoving is, with the effect NoSchedule, on a node from which a pod is being moved, so that it does not come back. Its
// value is the Unix time in seconds by which it will have been taken away.
const TaintMoving = "g8s.host/moving"

// Resource names, as nodes offer and containers ask them.
const (
	// ResourceGPU counts whole GPUs.
	ResourceGPU = "nvidia.com/gpu"
	// ResourceSharedGPU counts slots on shared GPUs.
	ResourceSharedGPU = "g8s.host/shared-gpu"
	// ResourceMIGPrefix begins the names of MIG slices, such as nvidia.com/mig-1g.10gb.
	ResourceMIGPrefix = "nvidia.com/mig-"
	// ResourceGPUMemory is what pods ask for who take the memory of GPUs for a resource. No device plugin offers it:
	// [AnnotationGPUMemoryMin] is what it means.
	ResourceGPUMemory = "nvidia.com/gpu-memory"
)

// Labels of workloads: on the top object, on its pods and on all that belongs to the job.
const (
	// LabelJob is the job's name as its author wrote it.
	LabelJob = "g8s.host/job"
	// LabelJobType is the job's kind: training, inference, notebook or compute.
	LabelJobType = "g8s.host/job-type"
	// LabelPriority is the job's priority: high, medium or low.
	LabelPriority = "g8s.host/priority"
	// LabelManagedBy is Kubernetes' well-known label; its value here is [ManagedByGpuctl].
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelKueueQueue names the LocalQueue of Kueue that an object is in. Kueue suspends such objects until it admits them.
	LabelKueueQueue = "kueue.x-k8s.io/queue-name"
	// LabelPodGroup joins a pod to a PodGroup of scheduler-plugins.
	LabelPodGroup = "scheduling.x-k8s.io/pod-group"
	// ManagedByGpuctl marks the objects that gpuctl made.
	ManagedByGpuctl = "gpuctl"
)

// What administrators allow, in a ConfigMap of the namespace kube-system that everyone may read.
const (
	// PolicyConfigMap is the name of the ConfigMap.
	PolicyConfigMap = "gpuctl-policy"
	// PresetConfigMap is the name of the ConfigMap with the presets of jobs, one a key, in the namespace of the other.
	PresetConfigMap = "gpuctl-presets"
	// PolicyHostPaths is its key with the paths of nodes that jobs may mount, one a line.
	PolicyHostPaths = "host-paths"
	// PolicyWorkdirLimit is its key with the most that a folder may have, compressed, which is sent with a job.
	PolicyWorkdirLimit = "workdir-limit"
	// PolicyChannel begins its keys with the namespaces whose jobs may tell a channel: what follows is the channel's name.
	PolicyChannel = "channels."
	// ChannelSecret is the name of the Secret with the URLs of channels, in the namespace of the ConfigMap. Only gpu-controller
	// reads it.
	ChannelSecret = "gpuctl-channels"
)

// The events of a notification.
const (
	NotifySucceeded = "succeeded"
	NotifyFailed    = "failed"
	NotifyCancelled = "cancelled"
	NotifyEvicted   = "evicted"
)

// NotifyWords are all of these.
var NotifyWords = []string{NotifySucceeded, NotifyFailed, NotifyCancelled, NotifyEvicted}

// LabelPolicy, on a namespace, frees its pods with the value [PolicyExempt] from what manifests/policy forbids. Only who
// may do so can set it.
const (
	LabelPolicy  = "g8s.host/policy"
	PolicyExempt = "exempt"
)

// Pod Security, which Kubernetes enforces by labels of the namespace.
const (
	// LabelPodSecurityEnforce names the level that pods must meet, LabelPodSecurityWarn that of which authors are warned.
	LabelPodSecurityEnforce = "pod-security.kubernetes.io/enforce"
	LabelPodSecurityWarn    = "pod-security.kubernetes.io/warn"
	// PodSecurityBaseline is the level of the namespaces that gpuctl makes.
	PodSecurityBaseline = "baseline"
)

// The objects that hold gangs together.
const (
	// PodGroupAPIVersion and PodGroupKind name scheduler-plugins' PodGroup.
	PodGroupAPIVersion = "scheduling.x-k8s.io/v1alpha1"
	PodGroupKind       = "PodGroup"
	// AnnotationSeveralOwners, on a PodGroup, with the value [True], makes one gang of pods that have different
	// controllers, such as the launcher and the workers of an MPIJob. Without it each controller's pods are a gang.
	AnnotationSeveralOwners = "g8s.host/several-owners"
	// AnnotationGang, on a workload whose pods are recognized as a gang, such as a JobSet, with the value [GangOff], has them start one by one.
	AnnotationGang = "g8s.host/gang"
	// GangOff is its only value.
	GangOff = "off"
	// AnnotationTopology, on a PodGroup or on such a workload, says how its members are to lie: "required=<level>" in one domain of a level, or
	// "preferred=<level>" as close together as there is room for. A level is zone, rack, nvlink or the key of a label of nodes.
	AnnotationTopology = "g8s.host/topology"
	// TopologyRequired and TopologyPreferred are the two.
	TopologyRequired  = "required"
	TopologyPreferred = "preferred"
	// TopologyWait, behind a level that is preferred and before a duration such as 10m, says how long the gang holds out for
	// one domain of it: preferred=rack;wait=10m.
	TopologyWait = ";wait="
	// TopologySegment, behind a level and before a number, says that not all members lie in one domain of it, but so many each:
	// required=nvlink;segment=16. The members of a segment have neighbouring indices. The last one may be smaller.
	TopologySegment = ";segment="
)

// Labels of what quotas consist of.
const (
	// LabelQuota, on a ResourceQuota, is the name of the quota document it was made from.
	LabelQuota = "g8s.host/quota"
	// LabelNamespace marks, with the value [True], the namespaces that gpuctl made.
	LabelNamespace = "g8s.host/namespace"
	// True is the value of labels that only mark.
	True = "true"
)

// MaxGPUTypes is the most types that a pod may accept. A cluster has a handful; the bound keeps one pod from making
// the scheduler look up and compare thousands in each attempt.
const MaxGPUTypes = 32

// Annotations of pods.
const (
	// AnnotationGPUTypes is the ordered list of acceptable types, the preferred first: "A100-80G,A800-80G". It has at
	// most [MaxGPUTypes] of them, each a valid value of a label.
	AnnotationGPUTypes = "g8s.host/gpu-types"
	// AnnotationGPUShare is the memory asked on each shared GPU, such as 2Gi.
	AnnotationGPUShare = "g8s.host/gpu-share"
	// AnnotationGPUMemoryMin is the least memory a GPU must have, such as 40Gi.
	AnnotationGPUMemoryMin = "g8s.host/gpu-memory-min"
	// AnnotationGPUDevices is the scheduler's choice of devices, JSON by container name.
	AnnotationGPUDevices = "g8s.host/gpu-devices"
	// AnnotationEpoch is, on a Binding, the leadership under which it was decided: "<lease holder>/<transitions>".
	// The API server refuses a Binding of another epoch than the scheduler's lease has.
	AnnotationEpoch = "g8s.host/epoch"
	// AnnotationDecision is, on a Binding, when it was decided: "<number>/<revision>". The number is that of the attempt
	// among all of the scheduler process, the revision that of the last change of a pod that it knew of. Bindings
	// overtake each other on the way to the API server; by this a replay finds the order.
	AnnotationDecision = "g8s.host/decision"
	// AnnotationGangPlan is, on a Binding, the decision by which members of a gang are bound together: "<time>/<how many>". By it
	// another leader knows a gang of which the one before it has bound a part alone.
	AnnotationGangPlan = "g8s.host/gang-plan"
	// AnnotationDescription is the author's description of a job or pool.
	AnnotationDescription = "g8s.host/description"
	// AnnotationCheckpointedAt, on a pod, is when it saved its work last, in RFC 3339: an eviction loses what came after.
	AnnotationCheckpointedAt = "g8s.host/checkpointed-at"
	// AnnotationMinRuntime, on a pod, is for how long after its start it may not be preempted, such as 2h0m0s. The GPUPool of
	// its node cuts what is longer than it allows.
	AnnotationMinRuntime = "g8s.host/min-runtime"
	// AnnotationCheckpointGrace, on a pod, is how long it has to save its work when it is to be preempted, such as 5m0s. The
	// GPUPool of its node cuts what is longer than it allows.
	AnnotationCheckpointGrace = "g8s.host/checkpoint-grace"
	// AnnotationPreemptionNotice is, on a pod that is to be preempted, for whom and by when, as JSON; pkg/notice has the format.
	// The scheduler writes it, and takes it away when the pod may stay.
	AnnotationPreemptionNotice = "g8s.host/preemption-notice"
	// AnnotationSubmitted, on the top object of a job, is the YAML document it was made from.
	AnnotationSubmitted = "g8s.host/submitted"
	// AnnotationSubmission, on the top object of a job, is unique to the request that created it: by it, a request whose
	// answer was lost finds out whether it was the one that created the object.
	AnnotationSubmission = "g8s.host/submission"
	// AnnotationIncomplete, on the top object of a job, says that not all objects of the job were created yet.
	AnnotationIncomplete = "g8s.host/incomplete"
	// AnnotationReplacement, on a Lease of gpuctl's, is the Job that takes the place of one which is deleted for it, from before
	// the deletion until it is there.
	AnnotationReplacement = "g8s.host/replacement"
	// AnnotationUser, on the top object of a job, is the user who submitted it, as the API server knows them. It informs
	// people, and proves nothing.
	AnnotationUser = "g8s.host/user"
	// AnnotationPausedAt, on the top object of a job, is when it was paused, in RFC 3339.
	AnnotationPausedAt = "g8s.host/paused-at"
	// AnnotationPausedBecause, on the top object of a job that was not paused by a user, is why it was paused.
	AnnotationPausedBecause = "g8s.host/paused-because"
	// AnnotationDependsOn, on the top object of a job, names the jobs that it starts after: "ok=a,b" when they have
	// succeeded, or "any=a,b" when they have ended.
	AnnotationDependsOn = "g8s.host/depends-on"
	// AfterOK and AfterAny are the two.
	AfterOK  = "ok"
	AfterAny = "any"
	// AnnotationWaitsFor, on the top object of a job that is suspended until others have ended, names those that have not.
	AnnotationWaitsFor = "g8s.host/waits-for"
	// AnnotationQuotaBehind, on the top object of a gang that gpu-controller has suspended so that another one gets the rest of a ResourceQuota,
	// names the job that comes first. AnnotationQuotaTurn, on that of a gang of which pods are missing though its quota has room, is
	// when gpu-controller last had Kubernetes try again, in RFC 3339.
	AnnotationQuotaBehind = "g8s.host/quota-behind"
	AnnotationQuotaTurn   = "g8s.host/quota-turn"
	// AnnotationIdleTimeout, on the top object of a job, is for how long its GPUs may do nothing until it is paused, such as
	// 2h0m0s.
	AnnotationIdleTimeout = "g8s.host/idle-timeout"
	// AnnotationPreset, on the top object of a job, is the preset that its resources were filled from.
	AnnotationPreset = "g8s.host/preset"
	// AnnotationPresetFilled, on the top object of a job with a preset, is what that filled of its resources, as YAML in one
	// line: {gpu: 2, cpu: 8}. Where it is missing, nobody knows.
	AnnotationPresetFilled = "g8s.host/preset-filled"
	// AnnotationPoolShare, on the top object of a job that says nothing of it itself, is the gpu-share that its pool gave it, such as
	// 8Gi.
	AnnotationPoolShare = "g8s.host/pool-share"
	// AnnotationUpload, on the top object of a job with a folder that was sent with it, tells which archive that is, and in how
	// many parts it is kept.
	AnnotationUpload = "g8s.host/workdir"
	// ContainerUnpack is the name of the container that unpacks it in each pod.
	ContainerUnpack = "unpack-workdir"
	// AnnotationNotify, on the top object of a job, is the channel that is told how it goes, and AnnotationNotifyOn of what, by
	// NotifyWords with commas.
	AnnotationNotify   = "g8s.host/notify"
	AnnotationNotifyOn = "g8s.host/notify-on"
	// AnnotationNotified, on the top object of a job, is of what end its channel was told, or could not be: the object's UID, a
	// slash and the word. AnnotationNotifiedEvictions is until when evictions of its pods were, in RFC 3339, and AnnotationNotifyFailed why
	// the newest of all was not told. gpu-controller writes them.
	AnnotationNotified          = "g8s.host/notified"
	AnnotationNotifiedEvictions = "g8s.host/notified-evictions"
	AnnotationNotifyFailed      = "g8s.host/not-told"
	// AnnotationLastNotified, on the top object of a job, is of what its channel was told last, and when. See [NotifiedValue].
	AnnotationLastNotified = "g8s.host/told"
	// AnnotationCancelledAt, on the top object of a job, is when it was cancelled, in RFC 3339.
	AnnotationCancelledAt = "g8s.host/cancelled-at"
	// AnnotationReplicas, on a paused or cancelled Deployment, is the number of replicas it had before.
	AnnotationReplicas = "g8s.host/replicas"
	// AnnotationOtherDeviceClasses, on a GPUQuota, names the DeviceClasses that are of no GPUs, separated by spaces: its namespaces
	// may have claims of these alone, as it counts none.
	AnnotationOtherDeviceClasses = "g8s.host/other-device-classes"
)

// PriorityClasses of jobs. They ship with the manifests; gpuctl never creates them.
const (
	PriorityClassHigh   = "g8s-high"
	PriorityClassMedium = "g8s-medium"
	PriorityClassLow    = "g8s-low"
)

// PriorityOf is what gpuctl calls a priority class: high, medium or low, and the name of a class that is not ours.
func PriorityOf(class string) string {
	switch class {
	case PriorityClassHigh:
		return "high"
	case PriorityClassMedium:
		return "medium"
	case PriorityClassLow:
		return "low"
	}
	return class
}

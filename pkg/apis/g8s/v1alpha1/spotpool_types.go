package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SpotPool keeps a number of machines of a cloud alive as nodes of a pool. Those that the cloud takes back are replaced.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=g8s
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([a-z0-9]|-[a-z0-9])*$') && self.metadata.name.size() <= 40",message="the name begins the host names of machines: 40 lower-case letters, digits and single hyphens at most"
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.minimum`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.maximum`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`
// +kubebuilder:printcolumn:name="Joined",type=integer,JSONPath=`.status.joined`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Why",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
type SpotPool struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec SpotPoolSpec `json:"spec"`
	// +optional
	Status SpotPoolStatus `json:"status,omitempty"`
}

// SpotPoolList is a list of SpotPools.
//
// +kubebuilder:object:root=true
type SpotPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []SpotPool `json:"items"`
}

// SpotPoolSpec is what an administrator wants of a SpotPool. Passwords and keys are in Secrets, never here.
//
// +kubebuilder:validation:XValidation:rule="self.minimum <= self.maximum",message="minimum is more than maximum"
// +kubebuilder:validation:XValidation:rule="self.provider.name == 'Simulated' ? has(self.template.simulated) : !has(self.template.simulated)",message="template.simulated is for the provider Simulated, which needs it"
// +kubebuilder:validation:XValidation:rule="self.provider.name != 'TencentCloud' || (has(self.provider.region) && has(self.provider.credentialsSecret) && has(self.template.image) && self.template.zones.all(z, has(z.subnet)) && has(self.template.network))",message="TencentCloud needs provider.region, provider.credentialsSecret, template.image, template.network and a subnet in each zone"
type SpotPoolSpec struct {
	// Pool is the pool that the machines join: the label g8s.host/pool of their nodes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the pool cannot change: make another SpotPool"
	Pool string `json:"pool"`
	// GPUType is the label g8s.host/gpu-type of their nodes. Without it the nodes have what their own software says.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	GPUType string `json:"gpuType,omitempty"`
	// Minimum is how many machines there always are, Maximum how many there may be while jobs wait for GPUs of the pool. A
	// machine that is about to be taken back does not count, as its replacement does.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=500
	Minimum int32 `json:"minimum"`
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=500
	Maximum int32 `json:"maximum"`
	// Provider is the cloud.
	Provider SpotProvider `json:"provider"`
	// Template is what a machine is like.
	Template MachineTemplate `json:"template"`
	// DrainSeconds is how long the jobs of a machine that is to go have, from being asked to save their state until they are
	// evicted. 0 to 3600. Defaults to 60.
	//
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	DrainSeconds *int32 `json:"drainSeconds,omitempty"`
	// WaitSeconds is how long jobs wait for GPUs until machines above the minimum are bought for them. Defaults to 30.
	//
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	WaitSeconds *int32 `json:"waitSeconds,omitempty"`
	// IdleSeconds is how long a machine above the minimum runs no job until it is given back. Defaults to 600.
	//
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=86400
	IdleSeconds *int32 `json:"idleSeconds,omitempty"`
}

// The providers of machines.
const (
	ProviderTencentCloud = "TencentCloud"
	ProviderSimulated    = "Simulated"
)

// SpotProvider is a cloud, and an account of it.
//
// +kubebuilder:validation:XValidation:rule="self.name == oldSelf.name && (has(self.region) == has(oldSelf.region)) && (!has(self.region) || self.region == oldSelf.region)",message="the cloud and its region cannot change: make another SpotPool"
type SpotProvider struct {
	// Name is TencentCloud, or Simulated for machines that are nodes of a sandbox.
	//
	// +kubebuilder:validation:Enum=TencentCloud;Simulated
	Name string `json:"name"`
	// Region is where the machines are, such as ap-singapore.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// CredentialsSecret is the Secret of the account, in the namespace of such Secrets: its keys are secretId and secretKey.
	//
	// +optional
	CredentialsSecret *SecretName `json:"credentialsSecret,omitempty"`
}

// SecretName names a Secret in the namespace that gpu-controller reads them from.
type SecretName struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// MachineTemplate is what a machine is like, and where it may be.
type MachineTemplate struct {
	// InstanceTypes are the cloud's types that do, the preferred first. All have the same GPUs.
	//
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	InstanceTypes []string `json:"instanceTypes"`
	// Zones are where machines may be, the preferred first. All are tried with a type before the next type is.
	//
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Zones []MachineZone `json:"zones"`
	// GPUs is how many GPUs a machine has. 1 to 64.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	GPUs int32 `json:"gpus"`
	// ChargeType is Spot or OnDemand. Defaults to Spot.
	//
	// +optional
	// +kubebuilder:default=Spot
	// +kubebuilder:validation:Enum=Spot;OnDemand
	ChargeType string `json:"chargeType,omitempty"`
	// MaxPrice is the most that an hour of a Spot machine may cost, in the money of the account, such as "1.90". Without it the
	// cloud's own price is taken.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,4})?$`
	MaxPrice string `json:"maxPrice,omitempty"`
	// Image is the image of the system, such as img-xxx.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Image string `json:"image,omitempty"`
	// Network is the private network, such as vpc-xxx.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Network string `json:"network,omitempty"`
	// SecurityGroups are the cloud's.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	SecurityGroups []string `json:"securityGroups,omitempty"`
	// KeyPairs are the cloud's key pairs whose owners may log in, and Role is the role that a machine has in the cloud. Nobody
	// logs in with a password.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	KeyPairs []string `json:"keyPairs,omitempty"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Role string `json:"role,omitempty"`
	// Disk is the system disk.
	//
	// +optional
	Disk *MachineDisk `json:"disk,omitempty"`
	// UserData is the key of a Secret with what a machine runs when it starts, so that it joins the cluster. 16 KiB at most.
	//
	// +optional
	UserData *SecretKey `json:"userData,omitempty"`
	// Simulated is for the provider of that name.
	//
	// +optional
	Simulated *SimulatedMachine `json:"simulated,omitempty"`
}

// The charge types of machines.
const (
	ChargeSpot     = "Spot"
	ChargeOnDemand = "OnDemand"
)

// MachineZone is a zone, and the subnet of machines in it.
type MachineZone struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Subnet string `json:"subnet,omitempty"`
}

// MachineDisk is a system disk.
type MachineDisk struct {
	// Type is the cloud's, such as CLOUD_BSSD.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type,omitempty"`
	// SizeGiB is how large it is. 20 to 32768.
	//
	// +kubebuilder:validation:Minimum=20
	// +kubebuilder:validation:Maximum=32768
	SizeGiB int32 `json:"sizeGiB"`
}

// SecretKey names a key of a Secret in the namespace that gpu-controller reads them from.
type SecretKey struct {
	SecretName `json:",inline"`
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// SimulatedMachine is what the nodes of simulated machines offer, and how their cloud behaves.
type SimulatedMachine struct {
	CPU    resource.Quantity `json:"cpu"`
	Memory resource.Quantity `json:"memory"`
	// BootSeconds is how long a machine takes until its node is ready. 0 to 50, as Kubernetes gives up a node after a minute.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	BootSeconds int32 `json:"bootSeconds,omitempty"`
	// MachinesPerZone is how many machines of a type each zone has. Without it there are always more.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	MachinesPerZone *int32 `json:"machinesPerZone,omitempty"`
}

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
	// Conditions are Ready, CloudAnswers and CapacityAvailable.
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
)

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
	// LeavingNeverJoined is that of one whose node never came, LeavingFailed of one that its cloud could not start.
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

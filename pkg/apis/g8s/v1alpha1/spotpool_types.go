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
	// JoinSeconds is how long a machine may take to become a ready node. One that takes longer is given back, and the next is bought
	// later and later, alone, until one joins. 30 to 7200. Defaults to 900.
	//
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=7200
	JoinSeconds *int32 `json:"joinSeconds,omitempty"`
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
//
// +kubebuilder:validation:XValidation:rule="!(has(self.keyPairs) && size(self.keyPairs) > 0 && has(self.keepImageLogin) && self.keepImageLogin)",message="keyPairs and keepImageLogin exclude each other: the cloud takes one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.keepImageLogin) || self.keepImageLogin || (has(self.keyPairs) && size(self.keyPairs) > 0)",message="keepImageLogin: false needs keyPairs: without either the cloud would make up a password"
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
	// KeyPairs are the cloud's key pairs whose owners may log in. Nobody logs in with a password.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	KeyPairs []string `json:"keyPairs,omitempty"`
	// KeepImageLogin leaves it to the image who may log in, which is so wherever there are no keyPairs. TencentCloud takes that for
	// images of an account's own, shared and imported ones; its public images need keyPairs.
	//
	// +optional
	KeepImageLogin *bool `json:"keepImageLogin,omitempty"`
	// Internet gives a machine bandwidth to the internet, and a public address. Without it a machine has neither: what it needs from
	// outside of its network, such as images, comes through a NAT gateway of its subnet.
	//
	// +optional
	Internet *MachineInternet `json:"internet,omitempty"`
	// Role is the role that a machine has in the cloud.
	//
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
	// +kubebuilder:validation:XValidation:rule="!(self.key in ['secretId', 'secretKey'])",message="secretId and secretKey are the keys of accounts, which no machine is given"
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

// MachineInternet is how a machine reaches the internet, and is reached from there.
//
// +kubebuilder:validation:XValidation:rule="has(self.bandwidthPackage) == (self.chargeType == 'BandwidthPackage')",message="bandwidthPackage is for the chargeType BandwidthPackage, which needs it"
type MachineInternet struct {
	// BandwidthMbps is the most that a machine sends, in Mbit/s. 1 to 10000.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	BandwidthMbps int32 `json:"bandwidthMbps"`
	// ChargeType is what is paid for: Bandwidth, by the hour, whatever is sent; Traffic, what is sent; or BandwidthPackage, nothing
	// beside the package that the machine shares.
	//
	// +kubebuilder:validation:Enum=Bandwidth;Traffic;BandwidthPackage
	ChargeType string `json:"chargeType"`
	// BandwidthPackage is that package, such as bwp-xxx.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	BandwidthPackage string `json:"bandwidthPackage,omitempty"`
	// PublicIP gives a machine a public address. Defaults to true.
	//
	// +optional
	// +kubebuilder:default=true
	PublicIP *bool `json:"publicIP,omitempty"`
}

// What is paid for the internet.
const (
	InternetBandwidth        = "Bandwidth"
	InternetTraffic          = "Traffic"
	InternetBandwidthPackage = "BandwidthPackage"
)

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

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GPUQuota is how many whole GPUs of a pool some namespaces have together: how many they can always get back, and how many at
// most. What is between the two they borrow, from those who do not use what they are guaranteed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gpuquotas,scope=Cluster,categories=g8s,shortName=gpuq
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.gpuType`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.min`
// +kubebuilder:printcolumn:name="Used",type=integer,JSONPath=`.status.used`
// +kubebuilder:printcolumn:name="Borrowed",type=integer,JSONPath=`.status.borrowed`
// +kubebuilder:printcolumn:name="Lent",type=integer,JSONPath=`.status.lent`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.max`
// +kubebuilder:printcolumn:name="Waiting",type=integer,JSONPath=`.status.waiting.gpus`
// +kubebuilder:printcolumn:name="Overcommitted",type=string,JSONPath=`.status.conditions[?(@.type=="Overcommitted")].status`,priority=1
// +kubebuilder:printcolumn:name="NotBacked",type=string,JSONPath=`.status.conditions[?(@.type=="MinNotBacked")].status`,priority=1
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.namespaces`
type GPUQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GPUQuotaSpec `json:"spec"`
	// Status is what has become of it, as gpu-controller sees it.
	//
	// +optional
	Status GPUQuotaStatus `json:"status,omitempty"`
}

// GPUQuotaList is a list of quotas.
//
// +kubebuilder:object:root=true
type GPUQuotaList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GPUQuota `json:"items"`
}

// GPUQuotaSpec is who may have how much of what.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || self.min <= self.max",message="min must not be more than max"
type GPUQuotaSpec struct {
	// Namespaces are those that have the GPUs together.
	//
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces"`
	// Pool is the pool whose GPUs are counted: default is the nodes without a label g8s.host/pool.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool"`
	// GPUType counts the GPUs of one type of the pool alone, as gpuctl get labels shows it. Without it all are counted.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	GPUType string `json:"gpuType,omitempty"`
	// Min is how many GPUs are guaranteed: while the namespaces have fewer, pods of others that hold more than they are
	// guaranteed leave for theirs.
	//
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Min int64 `json:"min"`
	// Max is how many GPUs the namespaces may have at most. Without it they may borrow whatever is free.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Max *int64 `json:"max,omitempty"`
}

// GPUQuotaStatus is what has become of a quota. It counts, and names no pod: who may see a quota need not see the pods of others.
type GPUQuotaStatus struct {
	// ObservedGeneration is the version of the spec that all this is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Used is how many GPUs the namespaces hold, and Borrowed the part of it that goes back to who is guaranteed it.
	//
	// +optional
	Used int64 `json:"used"`
	// +optional
	Borrowed int64 `json:"borrowed"`
	// Free is how many of its min that it does not use it could have at once, and Lent how many others would leave for it.
	//
	// +optional
	Free int64 `json:"free"`
	// +optional
	Lent int64 `json:"lent"`
	// Borrowers are who borrows where the quota counts, the most first. They are told while something waits for GPUs that it lends.
	//
	// +optional
	// +listType=map
	// +listMapKey=namespace
	// +kubebuilder:validation:MaxItems=16
	Borrowers []GPUQuotaBorrower `json:"borrowers,omitempty"`
	// Waiting is what waits for GPUs that count in the quota.
	//
	// +optional
	Waiting PendingDemand `json:"waiting"`
	// Conditions are Overcommitted and MinNotBacked.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// GPUQuotaBorrower is what the pods of a namespace borrow.
type GPUQuotaBorrower struct {
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`
	GPUs      int64  `json:"gpus"`
}

// MostBorrowers is how many borrowers the status of a quota names.
const MostBorrowers = 16

// Conditions of GPUQuotas.
const (
	// ConditionOvercommitted says that more is guaranteed of the GPUs that it counts than there are, by this quota and others.
	ConditionOvercommitted = "Overcommitted"
	// ConditionMinNotBacked says that the nodes that take pods have fewer GPUs now than are guaranteed.
	ConditionMinNotBacked = "MinNotBacked"
)

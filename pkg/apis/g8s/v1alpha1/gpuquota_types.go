package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GPUQuota is how many whole GPUs of a pool some namespaces have together: how many they can always get back, and how many at
// most. What is between the two they borrow, from those who do not use what they are guaranteed.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gpuquotas,scope=Cluster,categories=g8s,shortName=gpuq
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.gpuType`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.min`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.max`
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.namespaces`
type GPUQuota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GPUQuotaSpec `json:"spec"`
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

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// GPUReservation keeps nodes for some from one time to another: for namespaces, or for nobody, which is a maintenance window.
// The scheduler places no pod of others there that could still run when the window begins.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,categories=g8s,shortName=gpures
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from`
// +kubebuilder:printcolumn:name="To",type=string,JSONPath=`.spec.to`
// +kubebuilder:printcolumn:name="Pool",type=string,JSONPath=`.spec.pool`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.spec.nodes`
// +kubebuilder:printcolumn:name="For",type=string,JSONPath=`.spec.namespaces`
// +kubebuilder:printcolumn:name="In-The-Way",type=integer,JSONPath=`.status.inTheWay`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.spec.reason`
type GPUReservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec GPUReservationSpec `json:"spec"`
	// Status is what gpu-controller sees of the window.
	//
	// +optional
	Status GPUReservationStatus `json:"status,omitzero"`
}

// GPUReservationList is a list of reservations.
//
// +kubebuilder:object:root=true
type GPUReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []GPUReservation `json:"items"`
}

// GPUReservationSpec is what is kept, for whom and when.
//
// +kubebuilder:validation:XValidation:rule="self.from < self.to",message="from must be before to"
// +kubebuilder:validation:XValidation:rule="has(self.pool) != has(self.nodes)",message="name either a pool, for all its nodes, or nodes"
type GPUReservationSpec struct {
	// Pool is the pool of which all nodes are kept, also those that join it.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Pool string `json:"pool,omitempty"`
	// Nodes are the names of the nodes that are kept. A node of a name need not be there yet.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Nodes []string `json:"nodes,omitempty"`
	// From is when the window begins, in RFC 3339, such as 2026-12-01T14:00:00Z.
	From metav1.Time `json:"from"`
	// To is when it ends: from then on the nodes are for all again.
	To metav1.Time `json:"to"`
	// Namespaces are those whose pods may be there during the window. None is a maintenance window: nobody may.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitempty"`
	// Reason is for people: gpuctl why shows it to those who wait.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
	// Evict has gpu-controller evict, from the moment in which the window begins, the pods that are still there and may not be. It
	// keeps to PodDisruptionBudgets. Without it such pods stay.
	//
	// +optional
	Evict bool `json:"evict,omitempty"`
}

// ReservationPhase is where now lies.
//
// +kubebuilder:validation:Enum=Upcoming;Active;Over
type ReservationPhase string

// The phases of a reservation.
const (
	// ReservationUpcoming is before its window begins.
	ReservationUpcoming ReservationPhase = "Upcoming"
	// ReservationActive is within its window.
	ReservationActive ReservationPhase = "Active"
	// ReservationOver is after it.
	ReservationOver ReservationPhase = "Over"
)

// GPUReservationStatus is what gpu-controller sees of a window. It counts, and names nobody: who may see a reservation need not see
// the pods of others.
type GPUReservationStatus struct {
	// ObservedGeneration is the version of the spec that all this is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is whether the window is ahead, has begun or is over.
	//
	// +optional
	Phase ReservationPhase `json:"phase,omitempty"`
	// InTheWay is how many pods are on its nodes that may not be there during the window, and could be by their deadlines.
	//
	// +optional
	InTheWay int32 `json:"inTheWay"`
	// NodesInTheWay is on how many nodes those are.
	//
	// +optional
	NodesInTheWay int32 `json:"nodesInTheWay"`
}

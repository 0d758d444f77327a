package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SchemeGroupVersion is the group and version of our kinds.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// AddToScheme teaches a scheme our kinds.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(SchemeGroupVersion, &GPUPool{}, &GPUPoolList{}, &SpotPool{}, &SpotPoolList{}, &GPUReservation{}, &GPUReservationList{},
		&GPUQuota{}, &GPUQuotaList{})
	metav1.AddToGroupVersion(scheme, SchemeGroupVersion)
	return nil
}

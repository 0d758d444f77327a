package v1

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeschedulerv1 "k8s.io/kube-scheduler/config/v1"
)

// SchemeGroupVersion is kube-scheduler's own configuration API, the only one that plugin arguments are
// decoded from.
var SchemeGroupVersion = kubeschedulerv1.SchemeGroupVersion

// AddToScheme registers the arguments as both the external and the internal version, so that
// kube-scheduler needs no conversion between them, and registers their defaults.
func AddToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: SchemeGroupVersion.Group, Version: runtime.APIVersionInternal}
	for _, groupVersion := range []schema.GroupVersion{SchemeGroupVersion, internal} {
		scheme.AddKnownTypes(groupVersion, &GPUFilterArgs{}, &GPUScoreArgs{})
	}
	scheme.AddTypeDefaultingFunc(&GPUFilterArgs{}, func(obj any) { obj.(*GPUFilterArgs).SetDefaults() })
	scheme.AddTypeDefaultingFunc(&GPUScoreArgs{}, func(obj any) { obj.(*GPUScoreArgs).SetDefaults() })
	return nil
}

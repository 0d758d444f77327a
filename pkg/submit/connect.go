package submit

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Connect returns a Client that writes with the identity of config.
func Connect(config *rest.Config) (*Client, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), names.AddToScheme(kinds)); err != nil {
		return nil, phrase.Errorf("learning the kinds of objects: %w", err)
	}
	api, err := client.New(config, client.Options{Scheme: kinds, Mapper: restMapper()})
	if err != nil {
		return nil, phrase.Errorf("connecting to the cluster: %w", err)
	}
	return NewClient(api), nil
}

// restMapper maps the kinds that gpuctl writes, which saves the discovery requests.
func restMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Service", "PersistentVolumeClaim", "Pod", "ResourceQuota", "ConfigMap", "Secret"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	for _, kind := range []string{"Node", "Namespace"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	mapper.Add(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), meta.RESTScopeNamespace)
	mapper.Add(schema.FromAPIVersionAndKind(names.PodGroupAPIVersion, names.PodGroupKind), meta.RESTScopeNamespace)
	mapper.Add(names.SchemeGroupVersion.WithKind("GPUPool"), meta.RESTScopeRoot)
	mapper.Add(names.SchemeGroupVersion.WithKind("GPUReservation"), meta.RESTScopeRoot)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), meta.RESTScopeRoot)
	return mapper
}

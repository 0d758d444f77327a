package submit

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Connect returns a Client that writes with the identity of config.
func Connect(config *rest.Config) (*Client, error) {
	api, err := client.New(config, client.Options{Scheme: scheme.Scheme, Mapper: restMapper()})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return NewClient(api), nil
}

// restMapper knows the kinds that jobs and pools consist of, which spares the requests that would discover them.
func restMapper() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{"Service", "PersistentVolumeClaim", "Pod"} {
		mapper.Add(corev1.SchemeGroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	mapper.Add(batchv1.SchemeGroupVersion.WithKind("Job"), meta.RESTScopeNamespace)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	return mapper
}

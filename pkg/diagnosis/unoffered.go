package diagnosis

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// isOffered reports whether a node of the cluster offers a resource, in whichever pool.
func (s *search) isOffered(name corev1.ResourceName) bool {
	return slices.ContainsFunc(s.facts.Cluster.Nodes, func(node corev1.Node) bool {
		offered := node.Status.Allocatable[name]
		return offered.Sign() > 0
	})
}

// describeUnofferedResource describes a resource that no node offers, so that neither another pool nor waiting helps.
func (s *search) describeUnofferedResource(out *Finding, name corev1.ResourceName) {
	asked := s.request.Resources[name]
	out.Never = true
	out.Message = phrase.Textf("a pod asks for %s of %s, and no node of the cluster offers that resource", &asked, name)
	step := Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: "resources.limits", Name: string(name),
		Message: phrase.Textf("take %s out of the requests and limits of the pod, or have the administrators install what offers it", name)}
	if name == names.ResourceGPUMemory {
		step = s.askMemory(asked)
	}
	out.Steps = []Step{step}
}

// askMemory advises a request for GPU memory in the form that nodes report it: per GPU, not in total.
func (s *search) askMemory(asked resource.Quantity) Step {
	gpus := max(s.request.Demand.Whole+s.request.Demand.Shared, 1)
	each := resource.NewQuantity((asked.Value()-1)/gpus+1, resource.BinarySI)
	return Step{Action: reason.Resubmit, Kind: reason.KindPod, Field: names.AnnotationGPUMemoryMin, Value: each.String(),
		Message: phrase.Textf("take %s out of the requests and limits of the pod; its annotation %s: %s asks for GPUs with that much memory each",
			names.ResourceGPUMemory, names.AnnotationGPUMemoryMin, each)}
}

package gpu

import (
	"fmt"
	"math"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Request is what a pod asks of a node's GPUs at its peak, over all its containers.
// The zero value asks for none.
type Request struct {
	// Whole is the number of whole GPUs, [names.ResourceGPU].
	Whole int64
	// Shared is the number of slots on shared GPUs, [names.ResourceSharedGPU].
	Shared int64
	// MIG is the number of MIG slices of all profiles together. Kubernetes counts the slices of each profile; the sum here only shows that the pod
	// uses a GPU. It saturates at math.MaxInt64.
	MIG int64
}

// IsZero reports whether the pod asks for no GPU in any form.
func (r Request) IsZero() bool { return r == Request{} }

// RequestOf returns what pod asks: the larger of its start-up peak and its steady state, plus overhead.
// Sidecars (init containers that restart always) hold their share from their own start to the pod's end;
// other init containers hold theirs only while they run. The rule is the one that Kubernetes documents
// for PodRequests, with two differences: a sum that does not fit in 63 bits is an error, where Kubernetes'
// sum wraps to a negative number that fits on any node; and a resource that only has a limit counts as
// requested, as the API server would default it. Pod-level resources and in-place resizing do not exist
// for GPUs, so neither is read.
//
// The error names the container and the quantity that is no count of GPUs. Then the Request is not zero.
func RequestOf(pod *corev1.Pod) (Request, error) {
	steady, err := steadyState(pod)
	if err != nil {
		return refusedRequest(), err
	}
	peak, err := startPeak(pod)
	if err != nil {
		return refusedRequest(), err
	}
	overhead, err := containerRequest(corev1.ResourceRequirements{Requests: pod.Spec.Overhead})
	if err != nil {
		return refusedRequest(), fmt.Errorf("reading the pod's overhead: %w", err)
	}
	total, err := addRequests(maxRequest(steady, peak), overhead)
	if err != nil {
		return refusedRequest(), err
	}
	return total, nil
}

// refusedRequest stands for a request that cannot be counted: more than any node has, so that a caller who overlooks the error cannot place the pod.
func refusedRequest() Request { return Request{Whole: math.MaxInt64} }

// steadyState is the total request of all main containers and all sidecars.
func steadyState(pod *corev1.Pod) (Request, error) {
	var sum Request
	for i := range pod.Spec.Containers {
		var err error
		if sum, err = addContainer(sum, &pod.Spec.Containers[i]); err != nil {
			return Request{}, err
		}
	}
	for i := range pod.Spec.InitContainers {
		if !isSidecar(&pod.Spec.InitContainers[i]) {
			continue
		}
		var err error
		if sum, err = addContainer(sum, &pod.Spec.InitContainers[i]); err != nil {
			return Request{}, err
		}
	}
	return sum, nil
}

// startPeak is the largest request at one time while init containers run one after the other.
func startPeak(pod *corev1.Pod) (Request, error) {
	var sidecars, peak Request
	for i := range pod.Spec.InitContainers {
		container := &pod.Spec.InitContainers[i]
		running, err := addContainer(sidecars, container)
		if err != nil {
			return Request{}, err
		}
		if isSidecar(container) {
			sidecars = running
		}
		peak = maxRequest(peak, running)
	}
	return peak, nil
}

func isSidecar(container *corev1.Container) bool {
	return container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

func addContainer(sum Request, container *corev1.Container) (Request, error) {
	counts, err := containerRequest(container.Resources)
	if err != nil {
		return Request{}, fmt.Errorf("reading container %q: %w", container.Name, err)
	}
	return addRequests(sum, counts)
}

// containerRequest reads the GPU counts of one container.
func containerRequest(resources corev1.ResourceRequirements) (Request, error) {
	whole, err := countResource(resources, names.ResourceGPU)
	if err != nil {
		return Request{}, err
	}
	shared, err := countResource(resources, names.ResourceSharedGPU)
	if err != nil {
		return Request{}, err
	}
	return Request{Whole: whole, Shared: shared, MIG: migSlices(resources)}, nil
}

// countResource reads one extended resource, from the limit when there is no request.
func countResource(resources corev1.ResourceRequirements, name corev1.ResourceName) (int64, error) {
	quantity, ok := resources.Requests[name]
	if !ok {
		quantity = resources.Limits[name]
	}
	n := quantity.Value()
	if n < 0 || quantity.Cmp(*apiresource.NewQuantity(n, quantity.Format)) != 0 {
		return 0, fmt.Errorf("%s is %q, want a whole number of GPUs from 0 to 2^63-1", name, quantity.String())
	}
	return n, nil
}

// migSlices counts MIG slices of every profile, from the limit when there is no request.
func migSlices(resources corev1.ResourceRequirements) int64 {
	var sum int64
	for name, quantity := range resources.Requests {
		if strings.HasPrefix(string(name), names.ResourceMIGPrefix) {
			sum, _ = addSaturating(sum, max(quantity.Value(), 0))
		}
	}
	for name, quantity := range resources.Limits {
		if _, asked := resources.Requests[name]; !asked && strings.HasPrefix(string(name), names.ResourceMIGPrefix) {
			sum, _ = addSaturating(sum, max(quantity.Value(), 0))
		}
	}
	return sum
}

// addRequests adds two requests. Whole or shared GPUs that overflow are an error.
func addRequests(a, b Request) (Request, error) {
	whole, fits := addSaturating(a.Whole, b.Whole)
	if !fits {
		return Request{}, tooMany(names.ResourceGPU)
	}
	shared, fits := addSaturating(a.Shared, b.Shared)
	if !fits {
		return Request{}, tooMany(names.ResourceSharedGPU)
	}
	mig, _ := addSaturating(a.MIG, b.MIG)
	return Request{Whole: whole, Shared: shared, MIG: mig}, nil
}

func tooMany(name corev1.ResourceName) error {
	return fmt.Errorf("the sum of %s over all containers exceeds %d", name, int64(math.MaxInt64))
}

// addSaturating adds two non-negative numbers and reports whether the sum fits in 63 bits.
func addSaturating(a, b int64) (int64, bool) {
	if a > math.MaxInt64-b {
		return math.MaxInt64, false
	}
	return a + b, true
}

// maxRequest is the larger of each count.
func maxRequest(a, b Request) Request {
	return Request{Whole: max(a.Whole, b.Whole), Shared: max(a.Shared, b.Shared), MIG: max(a.MIG, b.MIG)}
}

package gpu

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// MilliPerGPU is all of one GPU in the unit of [Demand.MilliGPUs].
const MilliPerGPU = 1000

// MaxContainers is the most containers of one pod that may ask for GPUs.
const MaxContainers = 32

// Lifetime is when a container holds its GPUs.
type Lifetime uint8

const (
	// Main containers hold their GPUs for the pod's life.
	Main Lifetime = iota
	// Sidecar containers hold theirs for the pod's life, and while the init containers after them run.
	Sidecar
	// Init containers hold theirs until they end; containers that start later use the same GPUs again.
	Init
)

// Demand is what a pod asks of a node's GPUs, container by container. The zero value asks for none.
// [DemandOf] makes it.
type Demand struct {
	// Request is the pod's peak. MIG slices take no GPU here.
	Request
	// Containers are those that ask for GPUs, in the order in which they start.
	Containers []ContainerDemand
	// Slices are what containers ask for of MIG slices, in the order in which they start.
	Slices []SliceDemand
	// Profiles are the peaks of Slices, by profile.
	Profiles []ProfileDemand
	// ShareMiB is the memory asked on each shared GPU; above 0 when any container asks for shared GPUs.
	ShareMiB int64
	// MemoryMinMiB is the least memory that a GPU must have, 0 for any.
	MemoryMinMiB int64
	// Types are those of the pod. An allocator enforces them on GPUs of several models; otherwise the node's labels do, see [Types.MatchesNode].
	Types Types
}

// ContainerDemand is what one container asks: a number of different GPUs of each kind.
type ContainerDemand struct {
	Name     string
	Lifetime Lifetime
	// Whole is the number of whole GPUs.
	Whole int64
	// Shared is the number of different GPUs to share, [Demand.ShareMiB] of each.
	Shared int64
}

// DemandOf returns the demand of a pod. The error names the container or annotation that is wrong and what to write instead. The demand is then more
// than any node has, so that a caller who overlooks the error cannot place the pod. Annotations of a pod that requests no GPU are not read.
func DemandOf(pod *corev1.Pod) (Demand, error) {
	demand, err := specDemand(pod)
	if err != nil || demand.IsZero() {
		return demand, err
	}
	if err := demand.readAnnotations(pod.Annotations); err != nil {
		return Demand{Request: refusedRequest()}, err
	}
	demand.Types, _ = PodTypes(pod) // the scheduler reads them as well, and refuses unreadable ones
	return demand, nil
}

// specDemand returns the demand of a pod's containers, which, unlike its annotations, never changes.
func specDemand(pod *corev1.Pod) (Demand, error) {
	request, err := RequestOf(pod)
	if err != nil || request.IsZero() {
		return Demand{Request: request}, err
	}
	containers, err := containerDemands(pod)
	if err != nil {
		return Demand{Request: refusedRequest()}, err
	}
	demand := Demand{Request: request, Containers: containers}
	if request.MIG > 0 {
		demand.Slices = sliceDemands(pod)
		demand.Profiles = profilePeaks(demand.Slices)
	}
	if count := countContainers(demand.Slices); count > MaxContainers {
		return Demand{Request: refusedRequest()}, fmt.Errorf("%d containers ask for MIG slices, want at most %d", count, MaxContainers)
	}
	return demand, nil
}

// MilliGPUs returns the pod's demand on GPUs with a memory in MiB, in thousandths of a GPU: a share by its part of the memory, and as all of a GPU if
// that is unknown.
func (d *Demand) MilliGPUs(cardMiB int64) int64 {
	share := int64(MilliPerGPU)
	if cardMiB > 0 {
		share = min(d.ShareMiB*MilliPerGPU/cardMiB, MilliPerGPU)
	}
	return min(d.Whole, MaxGPUs)*MilliPerGPU + min(d.Shared, MaxGPUs)*share
}

// NeedsGPUs reports whether the pod requests GPUs. A pod that only requests MIG slices does not.
func (d *Demand) NeedsGPUs() bool { return d.wholePeak() > 0 || d.widestShare() > 0 }

func (d *Demand) readAnnotations(annotations map[string]string) (err error) {
	if d.ShareMiB, err = annotatedMiB(annotations, names.AnnotationGPUShare); err != nil {
		return err
	}
	if d.MemoryMinMiB, err = annotatedMiB(annotations, names.AnnotationGPUMemoryMin); err != nil {
		return err
	}
	if d.Shared > 0 && d.ShareMiB == 0 {
		return fmt.Errorf("the pod asks for %s without annotation %s: add it, such as %q, for the memory on each card",
			names.ResourceSharedGPU, names.AnnotationGPUShare, "2Gi")
	}
	return nil
}

// containerDemands lists the containers that request GPUs, and refuses GPUs that no container could use.
func containerDemands(pod *corev1.Pod) ([]ContainerDemand, error) {
	overhead, err := containerRequest(corev1.ResourceRequirements{Requests: pod.Spec.Overhead})
	if err != nil {
		return nil, fmt.Errorf("reading the pod's overhead: %w", err)
	}
	if overhead.Whole > 0 || overhead.Shared > 0 {
		return nil, errors.New("the pod's overhead asks for GPUs, which no container could use: ask for them in a container")
	}
	inits, err := demandsOf(pod.Spec.InitContainers, initLifetime)
	if err != nil {
		return nil, err
	}
	mains, err := demandsOf(pod.Spec.Containers, mainLifetime)
	if err != nil {
		return nil, err
	}
	demands := slices.Concat(inits, mains)
	if len(demands) > MaxContainers {
		return nil, fmt.Errorf("%d containers ask for GPUs, want at most %d", len(demands), MaxContainers)
	}
	return demands, nil
}

func demandsOf(containers []corev1.Container, lifetime func(*corev1.Container) Lifetime) ([]ContainerDemand, error) {
	var demands []ContainerDemand
	for i := range containers {
		container := &containers[i]
		counts, err := containerRequest(container.Resources)
		if err != nil {
			return nil, fmt.Errorf("reading container %q: %w", container.Name, err)
		}
		if counts.Whole > 0 || counts.Shared > 0 {
			demands = append(demands, ContainerDemand{
				Name: container.Name, Lifetime: lifetime(container), Whole: counts.Whole, Shared: counts.Shared,
			})
		}
	}
	return demands, nil
}

func mainLifetime(*corev1.Container) Lifetime { return Main }

func initLifetime(container *corev1.Container) Lifetime {
	if isSidecar(container) {
		return Sidecar
	}
	return Init
}

// wholePeak returns the most whole GPUs that the containers hold at once, saturated. [Request] counts the same; counting again protects against a
// handmade demand that is too small.
func (d *Demand) wholePeak() int64 {
	var life, sidecars, peak int64
	for i := range d.Containers {
		asked := d.Containers[i].Whole
		switch d.Containers[i].Lifetime {
		case Init:
			during, _ := addSaturating(sidecars, asked)
			peak = max(peak, during)
			continue
		case Sidecar:
			sidecars, _ = addSaturating(sidecars, asked)
		}
		life, _ = addSaturating(life, asked)
	}
	return max(life, peak, d.Whole)
}

// widestShare returns the most different shared GPUs that one container asks for.
func (d *Demand) widestShare() int64 {
	var widest int64
	for i := range d.Containers {
		widest = max(widest, d.Containers[i].Shared)
	}
	return widest
}

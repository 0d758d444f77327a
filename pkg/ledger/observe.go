package ledger

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/condition"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Sighting is an observation of a pod.
type Sighting struct {
	Pod *corev1.Pod
	// Gone says that it has been deleted, and Pod is its last state.
	Gone bool
	// At is when it was seen, and Since the earliest time at which the observed change may have happened: equal to At if it was seen at once.
	Since, At time.Time
}

// MostSkew is the tolerated lead of the API server's clock over ours: a later time was made up.
const MostSkew = time.Minute

// precision is the precision of Kubernetes' times.
const precision = time.Second

// ObservePod returns the holding of a pod after an observation. known is the previous holding, nil for none. The result is nil for a pod without GPUs.
// The node is the pod's, nil if unknown.
func ObservePod(known *Holding, seen Sighting, node *corev1.Node) *Holding {
	if known != nil && known.HasEnded() {
		return known
	}
	next := known
	if next == nil {
		if next = newHolding(seen.Pod, node); next == nil {
			return nil
		}
	} else {
		held := *known
		next = &held
		next.weighAgain(seen.Pod, node)
	}
	if next.GPUType == "" && node != nil {
		next.Pool, next.GPUType = gpu.PoolOf(node), gpu.TypeOf(node)
	}
	if gpu.HasEnded(seen.Pod) || seen.Gone {
		next.endHolding(seen)
	}
	return next
}

// weighAgain recomputes GPU shares that counted as whole GPUs while the node was unknown.
func (h *Holding) weighAgain(pod *corev1.Pod, node *corev1.Node) {
	parts := slices.ContainsFunc(h.GPUs, func(card GPU) bool { return card.MemoryMiB > 0 || card.isDerived() })
	if !parts || node == nil {
		return
	}
	request, err := gpu.RequestOf(pod)
	if err == nil && h.Milli == milliOf(h.GPUs, pod, request, measuresOfNode(nil)) {
		h.Milli = milliOf(h.GPUs, pod, request, measuresOfNode(node))
	}
}

// EndVanished ends a holding whose pod has disappeared unobserved: after since, the last moment with complete knowledge, and before at.
func EndVanished(known *Holding, since, at time.Time) *Holding {
	gone := *known
	gone.closeBetween(laterTime(since, known.From), at)
	gone.Outcome = OutcomeDeleted
	return &gone
}

func newHolding(pod *corev1.Pod, node *corev1.Node) *Holding {
	if pod.Spec.NodeName == "" {
		return nil
	}
	request, err := gpu.RequestOf(pod)
	if request.IsZero() || err != nil {
		return nil // such a request cannot hold anything, and the kubelet rejects the pod
	}
	w := gang.WorkloadOf(pod)
	h := &Holding{
		UID: string(pod.UID), Namespace: pod.Namespace, Pod: pod.Name, Job: w.JobName(), Kind: w.JobKind(), Node: pod.Spec.NodeName, Pool: gpu.PodPool(pod), From: boundAt(pod),
	}
	if node != nil {
		h.Pool, h.GPUType = gpu.PoolOf(node), gpu.TypeOf(node)
	}
	h.GPUs = gpusOf(pod)
	h.Milli = milliOf(h.GPUs, pod, request, measuresOfNode(node))
	return h
}

// boundAt returns when a pod was bound, as the API server recorded it. A pod created on its node was bound at its creation.
func boundAt(pod *corev1.Pod) time.Time {
	bound := condition.TrueOfPod(pod, corev1.PodScheduled)
	if bound == nil || bound.LastTransitionTime.IsZero() {
		return pod.CreationTimestamp.UTC()
	}
	return laterTime(bound.LastTransitionTime.Time, pod.CreationTimestamp.Time).UTC()
}

// gpusOf returns the GPUs that the scheduler assigned to a pod, each once; none if another scheduler bound it.
func gpusOf(pod *corev1.Pod) []GPU {
	assignment, err := gpu.ParseAssignment(pod.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		return nil
	}
	byUUID := map[string]GPU{}
	for _, devices := range assignment {
		for _, device := range devices {
			held, twice := byUUID[device.UUID]
			held.UUID, held.Index = device.UUID, device.Index
			if twice && held.MemoryMiB == 0 || device.MemoryMiB == 0 {
				held.MemoryMiB = 0 // one container holds it whole, before or after the others
			} else {
				held.MemoryMiB += device.MemoryMiB
			}
			byUUID[device.UUID] = held
		}
	}
	out := make([]GPU, 0, len(byUUID))
	for _, held := range byUUID {
		out = append(out, held)
	}
	slices.SortFunc(out, func(a, b GPU) int { return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID)) })
	return out
}

// nodeMeasures is what a node reports about its GPUs.
type nodeMeasures struct {
	// memory is the memory of each GPU in MiB, by UUID; "" is the default for the others.
	memory map[string]int64
	// slot is the size of each of its units in thousandths of a GPU.
	slot int64
}

func measuresOfNode(node *corev1.Node) nodeMeasures {
	out := nodeMeasures{memory: map[string]int64{}, slot: whole}
	if node == nil {
		return out
	}
	inventory, _ := gpu.InventoryOf(node) // the error describes what was ignored; the rest is valid
	out.slot = inventory.Slot.MilliGPUs()
	for _, card := range inventory.GPUs {
		out.memory[card.UUID] = card.MemoryMiB
		out.memory[""] = max(out.memory[""], card.MemoryMiB)
	}
	return out
}

// whole is a GPU in thousandths.
const whole = 1000

// milliOf returns the amount of GPUs that a pod holds. A share of a GPU with unknown memory counts as the whole GPU, and a part of a GPU that a
// device plugin offers as a whole one (gpu.Slot) as that part.
func milliOf(cards []GPU, pod *corev1.Pod, request gpu.Request, node nodeMeasures) int64 {
	sum := migMilli(pod)
	for _, card := range cards {
		of := node.memory[card.UUID]
		if of == 0 {
			of = node.memory[""]
		}
		switch {
		case card.MemoryMiB == 0 && card.isDerived():
			sum += node.slot
		case card.MemoryMiB == 0 || of == 0:
			sum += whole
		default:
			sum += min(whole, card.MemoryMiB*whole/of)
		}
	}
	if len(cards) == 0 {
		sum += min(request.Whole, gpu.MaxGPUs)*node.slot + min(request.Shared, gpu.MaxGPUs)*whole
	}
	return min(sum, gpu.MaxGPUs*whole)
}

// isDerived reports whether the node did not report its GPUs when this one was assigned.
func (g *GPU) isDerived() bool {
	device := gpu.Device{UUID: g.UUID, Index: g.Index}
	return device.IsDerived()
}

// migSlices is the maximum number of slices of a GPU. migProfile matches how many of them a profile has.
const migSlices = 7

var migProfile = regexp.MustCompile(`^` + regexp.QuoteMeta(names.ResourceMIGPrefix) + `([1-7])g\.`)

// migMilli returns the amount of GPUs in the MIG slices of a pod's containers.
func migMilli(pod *corev1.Pod) int64 {
	var sevenths int64
	for i := range pod.Spec.Containers {
		for name, quantity := range pod.Spec.Containers[i].Resources.Limits {
			if found := migProfile.FindStringSubmatch(string(name)); found != nil {
				parts, _ := strconv.ParseInt(found[1], 10, 64) // one digit
				sevenths += parts * min(max(quantity.Value(), 0), gpu.MaxGPUs*migSlices)
			}
		}
	}
	return sevenths * whole / migSlices // divide once: seven slices are a whole GPU
}

// endHolding records how and when a pod ended.
func (h *Holding) endHolding(seen Sighting) {
	pod := seen.Pod
	h.Outcome = OutcomeDeleted
	if gpu.HasEnded(pod) {
		h.Outcome = string(pod.Status.Phase)
	}
	h.ExitCode = firstFailure(pod)
	if finished, ok := finishedAt(pod); ok {
		if finished.After(seen.At) {
			finished = seen.At // the node's clock is ahead
		}
		h.closeBetween(finished, finished)
		return
	}
	since := seen.Since
	if seen.Gone && pod.DeletionTimestamp != nil {
		// The deletion timestamp is the time of the deletion request plus the grace period.
		asked := pod.DeletionTimestamp.Time
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			asked = asked.Add(-time.Duration(*grace) * time.Second)
		}
		since = laterTime(since, asked)
	}
	if disrupted := disruptedAt(pod); !disrupted.IsZero() {
		since = laterTime(since, disrupted)
		if gpu.HasEnded(pod) {
			// Whoever ends a pod instead of the kubelet sets the condition in the same write.
			h.closeBetween(disrupted, disrupted)
			return
		}
	}
	h.closeBetween(since, seen.At)
}

// closeBetween ends a holding between two moments: at the later one, if they are equal within the precision.
func (h *Holding) closeBetween(since, at time.Time) {
	since, at = laterTime(since, h.From), laterTime(at, h.From)
	if ahead := since.Sub(at); ahead > 0 && ahead <= MostSkew {
		at = since // it had not ended before, by the API server's clock
	}
	if at.Sub(since) <= precision {
		h.To = at.UTC().Truncate(precision)
		h.To = laterTime(h.To, h.From)
		return
	}
	h.To, h.Until = laterTime(since.UTC().Truncate(precision), h.From), at.UTC().Truncate(precision)
}

// finishedAt returns when the last container of a pod ended, false if not all have ended or the time is unknown.
func finishedAt(pod *corev1.Pod) (last time.Time, ok bool) {
	ended := 0
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			state := statuses[i].State
			switch {
			case state.Running != nil:
				return time.Time{}, false
			case state.Terminated != nil && !state.Terminated.FinishedAt.IsZero():
				last = laterTime(last, state.Terminated.FinishedAt.Time)
				ended++
			}
		}
	}
	return last, ended > 0 && (gpu.HasEnded(pod) || ended >= len(pod.Spec.Containers)+len(pod.Spec.InitContainers))
}

func disruptedAt(pod *corev1.Pod) time.Time {
	disrupted := condition.TrueOfPod(pod, corev1.DisruptionTarget)
	if disrupted == nil {
		return time.Time{}
	}
	return disrupted.LastTransitionTime.Time
}

// firstFailure returns the exit code of the container that failed first.
func firstFailure(pod *corev1.Pod) int32 {
	var code int32
	var first metav1.Time
	for i := range pod.Status.ContainerStatuses {
		ended := pod.Status.ContainerStatuses[i].State.Terminated
		if ended != nil && ended.ExitCode != 0 && (code == 0 || ended.FinishedAt.Before(&first)) {
			code, first = ended.ExitCode, ended.FinishedAt
		}
	}
	return code
}

func laterTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

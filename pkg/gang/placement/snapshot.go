package placement

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gpu"
	quotas "g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
)

// GangCapacity is how many members of a gang have a place, and how many of the others the nodes have room for: free now, and on empty nodes.
// Both are upper bounds: they take no account of volumes, ports, or affinity between pods.
type GangCapacity struct{ placed, Free, Empty int }

// ClusterSnapshot is the part of the cluster state that the room for a gang depends on.
type ClusterSnapshot struct {
	Nodes []fwk.NodeInfo
	// Kept are the requests of pods nominated ahead of the gang, by node name.
	Kept        map[string][]cycle.ResourceRequest
	DeviceCache *devices.Cache
	// KeptWhole are the nodes reserved for pods that need a whole node: a smaller pod has no room there.
	KeptWhole sets.Set[string]
	// Reservations keep nodes from members, nil for none.
	Reservations *follow.Reservations
	// StartReservations are the start reservations of other jobs, nil for none.
	StartReservations *backfill.StartReservations
	// Request is the quota request of all members together, nil without quotas.
	Request *quotas.Request
	// Tables cache counted capacities, nil for no cache.
	Tables *CapacityTables
	// Steps is how many steps the searches of one attempt may still take together.
	Steps *int
}

// CapacityFor counts the room for pods of some classes, each as if the others did not exist.
func (b ClusterSnapshot) CapacityFor(waiting []PodClass, seats []PodSlot, placed int) GangCapacity {
	r := GangCapacity{placed: placed}
	for i, kind := range waiting {
		table := b.Tables.TableFor(kind.Pod, b.Nodes)
		free, empty := 0, 0
		for node := range b.Nodes {
			if free >= kind.Count {
				break
			}
			now, then := table.capacityOn(node, &seats[i], b)
			free += now
			empty += then
		}
		r.Free += min(free, kind.Count)
		r.Empty += min(max(free, empty), kind.Count)
	}
	return r
}

// PodSlot is everything that the room for a pod depends on.
type PodSlot struct {
	pod    *corev1.Pod
	Demand gpu.Demand
	types  gpu.Types
	pool   string
	nodes  nodeaffinity.RequiredNodeAffinity
	Asks   []cycle.ResourceRequest
	// isExclusive says that two such pods cannot share a node.
	isExclusive bool
	// reservations are the nodes that reservations currently keep from the pod.
	reservations *reservation.ClosedWindows
	// startReservations is what other jobs have reserved of the nodes now.
	startReservations *backfill.ReservedRoom
	// reservedBehind is what jobs behind the pod in the queue have reserved.
	reservedBehind *backfill.ReservedRoom
	// request is the quota request of the pods, together with all other members.
	request *quotas.Request
}

// newSlots builds the slots for the pods of each class, including what is reserved from them.
func (b ClusterSnapshot) SlotsFor(waiting []PodClass) ([]PodSlot, error) {
	seats, err := NewSlots(waiting)
	for i := range seats {
		seats[i].reservations, seats[i].startReservations = b.Reservations.ClosedFor(waiting[i].Pod), b.StartReservations.ReservedFrom(waiting[i].Pod)
		seats[i].reservedBehind = b.StartReservations.ReservedBehind(waiting[i].Pod)
		seats[i].request = b.Request.ForPod(waiting[i].Pod)
	}
	return seats, err
}

// NewSlots parses the pods of each class.
func NewSlots(waiting []PodClass) ([]PodSlot, error) {
	seats := make([]PodSlot, len(waiting))
	for i := range waiting {
		var err error
		if seats[i], err = NewSlot(waiting[i].Pod); err != nil {
			return nil, err
		}
	}
	return seats, nil
}

// NewSlot parses a pod. The error says which part is malformed.
func NewSlot(pod *corev1.Pod) (PodSlot, error) {
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return PodSlot{}, fmt.Errorf("reading what the pod asks for: %w", err)
	}
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return PodSlot{}, fmt.Errorf("reading which GPU types the pod accepts: %w", err)
	}
	s := PodSlot{pod: pod, Demand: demand, types: types, pool: gpu.PodPool(pod), nodes: nodeaffinity.GetRequiredNodeAffinity(pod)}
	s.Asks, s.isExclusive = cycle.PodResourceRequests(pod), excludesItself(pod)
	return s, nil
}

// isOpen reports whether an accessible node takes a pod now. Reservations do not change the generation of a node.
func (s *PodSlot) isOpen(node *corev1.Node, at access) bool {
	return at == accessNow && s.reservations.FirstOn(node) == nil && !s.request.ExcludesNode(node)
}

// excludesItself reports whether a pod uses a host port, or repels pods like itself.
func excludesItself(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		if slices.ContainsFunc(pod.Spec.Containers[i].Ports, func(port corev1.ContainerPort) bool { return port.HostPort > 0 }) {
			return true
		}
	}
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, func(term corev1.PodAffinityTerm) bool {
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		return err == nil && term.TopologyKey == corev1.LabelHostname && selector.Matches(labels.Set(pod.Labels))
	})
}

// capacityOn returns how many such pods a node has room for now, and when it is empty and open; never more than a limit.
func (s *PodSlot) capacityOn(info fwk.NodeInfo, b ClusterSnapshot, limit int) (free, empty int) {
	access := s.accessTo(info.Node())
	if access == accessNever {
		return 0, 0
	}
	free, empty = limit, limit
	kept := b.Kept[info.Node().Name]
	for _, ask := range s.Asks {
		offered, taken := cycle.AmountOf(info, ask.Resource)
		for _, other := range kept {
			if other.Resource == ask.Resource {
				taken += min(other.Amount, math.MaxInt64-max(0, taken))
			}
		}
		free = capAmount(max(0, offered-max(0, taken))/ask.Amount, free)
		empty = capAmount(max(0, offered)/ask.Amount, empty)
	}
	if empty > 0 && s.Demand.NeedsGPUs() {
		view := b.DeviceCache.NodeView(info)
		free = capAmount(view.Allocator.RoomFor(&view.Used, &s.Demand), free)
		empty = capAmount(view.Allocator.RoomFor(&gpu.Used{}, &s.Demand), empty)
	}
	if access == accessLater {
		free = 0
	}
	return free, empty
}

// capAmount caps an amount at a limit.
func capAmount(amount int64, limit int) int { return int(min(amount, int64(limit))) }

// access is whether a pod may use a node.
type access int

const (
	accessNever access = iota
	accessLater        // once the node is ready again, or is no longer cordoned
	accessNow
)

// accessTo checks the node's pool and type, its labels and its taints.
func (s *PodSlot) accessTo(node *corev1.Node) access {
	if node == nil || (s.pool != "" && gpu.PoolOf(node) != s.pool) || !s.types.MatchesNode(node) {
		return accessNever
	}
	if fits, err := s.nodes.Match(node); err == nil && !fits { // NodeAffinity reports a malformed affinity
		return accessNever
	}
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clip(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	access := accessNow
	for i := range taints {
		taint := &taints[i]
		switch {
		case taint.Effect == corev1.TaintEffectPreferNoSchedule,
			corev1helpers.TolerationsTolerateTaint(klog.Background(), s.pod.Spec.Tolerations, taint, false):
		case strings.HasPrefix(taint.Key, kubernetesTaintPrefix):
			access = accessLater
		default:
			return accessNever
		}
	}
	return access
}

// kubernetesTaintPrefix is the prefix of the taints by which Kubernetes marks a node as not ready, under pressure, or cordoned. These are temporary.
const kubernetesTaintPrefix = "node.kubernetes.io/"

// RefusalReason returns why a gang of so many members may not begin to take places, "" if it may. It evicts no pods: that would be decided for one
// member at a time, without knowing how many are missing.
func (r GangCapacity) RefusalReason(members int) string {
	switch {
	case members <= r.placed+r.Free:
		return ""
	case members <= r.placed+r.Empty:
		return reason.GangHasRoomForSome.Text.FormatText(r.placed+r.Free, members)
	}
	return reason.GangNeverFits.Text.FormatText(r.placed+r.Empty, members)
}

// LackingResource returns a resource of minResources of which the nodes that members may use have too little free, including what placed members
// hold; "" for none. Without slots all nodes count.
func LackingResource(want map[corev1.ResourceName]float64, placed []*corev1.Pod, seats []PodSlot, nodes []fwk.NodeInfo) corev1.ResourceName {
	if len(want) == 0 {
		return ""
	}
	free := map[corev1.ResourceName]float64{}
	for _, member := range placed {
		for name, amount := range amounts.Requests(member) {
			free[name] += amount.AsApproximateFloat64()
		}
	}
	for _, node := range nodes {
		if len(seats) > 0 && !slices.ContainsFunc(seats, func(s PodSlot) bool { return s.isOpen(node.Node(), s.accessTo(node.Node())) }) {
			continue
		}
		for name := range want {
			offered, taken := cycle.AmountOf(node, name)
			unit := 1.0
			if name == corev1.ResourceCPU {
				unit = 1000
			}
			free[name] += math.Max(0, float64(offered-taken)/unit)
		}
	}
	missing := corev1.ResourceName("")
	for name, amount := range want {
		if free[name] < amount && (missing == "" || name < missing) {
			missing = name
		}
	}
	return missing
}

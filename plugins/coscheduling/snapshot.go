package coscheduling

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

// gangCapacity is how many members of a gang have a place, and how many of the others the nodes have room for: free now, and on empty nodes.
// Both are upper bounds: they take no account of volumes, ports, or affinity between pods.
type gangCapacity struct{ placed, free, empty int }

// clusterSnapshot is the part of the cluster state that the room for a gang depends on.
type clusterSnapshot struct {
	nodes []fwk.NodeInfo
	// kept are the requests of pods nominated ahead of the gang, by node name.
	kept        map[string][]cycle.ResourceRequest
	deviceCache *devices.Cache
	// keptWhole are the nodes reserved for pods that need a whole node: a smaller pod has no room there.
	keptWhole sets.Set[string]
	// reservations keep nodes from members, nil for none.
	reservations *follow.Reservations
	// startReservations are the start reservations of other jobs, nil for none.
	startReservations *backfill.StartReservations
	// request is the quota request of all members together, nil without quotas.
	request *quotas.Request
	// tables cache counted capacities, nil for no cache.
	tables *capacityTables
	// steps is how many steps the searches of one attempt may still take together.
	steps *int
}

// capacityFor counts the room for pods of some classes, each as if the others did not exist.
func (b clusterSnapshot) capacityFor(waiting []podClass, seats []podSlot, placed int) gangCapacity {
	r := gangCapacity{placed: placed}
	for i, kind := range waiting {
		table := b.tables.tableFor(kind.pod, b.nodes)
		free, empty := 0, 0
		for node := range b.nodes {
			if free >= kind.count {
				break
			}
			now, then := table.capacityOn(node, &seats[i], b)
			free += now
			empty += then
		}
		r.free += min(free, kind.count)
		r.empty += min(max(free, empty), kind.count)
	}
	return r
}

// podSlot is everything that the room for a pod depends on.
type podSlot struct {
	pod    *corev1.Pod
	demand gpu.Demand
	types  gpu.Types
	pool   string
	nodes  nodeaffinity.RequiredNodeAffinity
	asks   []cycle.ResourceRequest
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
func (b clusterSnapshot) slotsFor(waiting []podClass) ([]podSlot, error) {
	seats, err := newSlots(waiting)
	for i := range seats {
		seats[i].reservations, seats[i].startReservations = b.reservations.ClosedFor(waiting[i].pod), b.startReservations.ReservedFrom(waiting[i].pod)
		seats[i].reservedBehind = b.startReservations.ReservedBehind(waiting[i].pod)
		seats[i].request = b.request.ForPod(waiting[i].pod)
	}
	return seats, err
}

// newSlots parses the pods of each class.
func newSlots(waiting []podClass) ([]podSlot, error) {
	seats := make([]podSlot, len(waiting))
	for i := range waiting {
		var err error
		if seats[i], err = newSlot(waiting[i].pod); err != nil {
			return nil, err
		}
	}
	return seats, nil
}

// newSlot parses a pod. The error says which part is malformed.
func newSlot(pod *corev1.Pod) (podSlot, error) {
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return podSlot{}, fmt.Errorf("reading what the pod asks for: %w", err)
	}
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return podSlot{}, fmt.Errorf("reading which GPU types the pod accepts: %w", err)
	}
	s := podSlot{pod: pod, demand: demand, types: types, pool: gpu.PodPool(pod), nodes: nodeaffinity.GetRequiredNodeAffinity(pod)}
	s.asks, s.isExclusive = cycle.PodResourceRequests(pod), excludesItself(pod)
	return s, nil
}

// isOpen reports whether an accessible node takes a pod now. Reservations do not change the generation of a node.
func (s *podSlot) isOpen(node *corev1.Node, at access) bool {
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
func (s *podSlot) capacityOn(info fwk.NodeInfo, b clusterSnapshot, limit int) (free, empty int) {
	access := s.accessTo(info.Node())
	if access == accessNever {
		return 0, 0
	}
	free, empty = limit, limit
	kept := b.kept[info.Node().Name]
	for _, ask := range s.asks {
		offered, taken := cycle.AmountOf(info, ask.Resource)
		for _, other := range kept {
			if other.Resource == ask.Resource {
				taken += min(other.Amount, math.MaxInt64-max(0, taken))
			}
		}
		free = capAmount(max(0, offered-max(0, taken))/ask.Amount, free)
		empty = capAmount(max(0, offered)/ask.Amount, empty)
	}
	if empty > 0 && s.demand.NeedsGPUs() {
		view := b.deviceCache.NodeView(info)
		free = capAmount(view.Allocator.RoomFor(&view.Used, &s.demand), free)
		empty = capAmount(view.Allocator.RoomFor(&gpu.Used{}, &s.demand), empty)
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
func (s *podSlot) accessTo(node *corev1.Node) access {
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

// refusalReason returns why a gang of so many members may not begin to take places, "" if it may. It evicts no pods: that would be decided for one
// member at a time, without knowing how many are missing.
func (r gangCapacity) refusalReason(members int) string {
	switch {
	case members <= r.placed+r.free:
		return ""
	case members <= r.placed+r.empty:
		return reason.GangHasRoomForSome.Text.FormatText(r.placed+r.free, members)
	}
	return reason.GangNeverFits.Text.FormatText(r.placed+r.empty, members)
}

// lackingResource returns a resource of minResources of which the nodes that members may use have too little free, including what placed members
// hold; "" for none. Without slots all nodes count.
func lackingResource(want map[corev1.ResourceName]float64, placed []*corev1.Pod, seats []podSlot, nodes []fwk.NodeInfo) corev1.ResourceName {
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
		if len(seats) > 0 && !slices.ContainsFunc(seats, func(s podSlot) bool { return s.isOpen(node.Node(), s.accessTo(node.Node())) }) {
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

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
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/amounts"
	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/devices"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/gpu"
	quotas "g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/reservation"
	"g8s.host/gpu-scheduler/pkg/reservation/follow"
)

// room is how many members of a gang have a place, and how many of the others the nodes have room for: free now, and on empty nodes.
// Both are upper bounds: they take no account of volumes, ports, or affinity between pods.
type room struct{ placed, free, empty int }

// bearing is the part of the cluster state that the room for a gang depends on.
type bearing struct {
	nodes []fwk.NodeInfo
	// kept are the requests of pods nominated ahead of the gang, by node name.
	kept  map[string][]cycle.Ask
	cards *devices.Ledger
	// whole are the nodes reserved for pods that need a whole node: a smaller pod has no room there.
	whole sets.Set[string]
	// reservations keep nodes from members, nil for none.
	reservations *follow.Reservations
	// promises are the start reservations of other jobs, nil for none.
	promises *backfill.Promises
	// request is the quota request of all members together, nil without quotas.
	request *quotas.Request
	// tables cache counted capacities, nil for no cache.
	tables *tables
	// steps is how many steps the searches of one attempt may still take together.
	steps *int
}

// bearingOf takes the snapshot for one attempt.
func (p *Plugin) bearingOf(nodes []fwk.NodeInfo) bearing {
	return bearing{nodes: nodes, cards: p.cards, reservations: p.reservations, promises: p.promises, tables: &p.tables, steps: ptr.To(gangplan.DefaultBudget)}
}

// roomFor counts the room for pods of some classes, each as if the others did not exist.
func (b bearing) roomFor(waiting []kind, seats []seat, placed int) room {
	r := room{placed: placed}
	for i, kind := range waiting {
		table := b.tables.like(kind.pod, b.nodes)
		free, empty := 0, 0
		for node := range b.nodes {
			if free >= kind.count {
				break
			}
			now, then := table.room(node, &seats[i], b)
			free += now
			empty += then
		}
		r.free += min(free, kind.count)
		r.empty += min(max(free, empty), kind.count)
	}
	return r
}

// seat is everything that the room for a pod depends on.
type seat struct {
	pod    *corev1.Pod
	demand gpu.Demand
	types  gpu.Types
	pool   string
	nodes  nodeaffinity.RequiredNodeAffinity
	asks   []cycle.Ask
	// alone says that two such pods cannot share a node.
	alone bool
	// closed are the nodes that reservations currently keep from the pod.
	closed *reservation.Closed
	// promised is what other jobs have reserved of the nodes now.
	promised *backfill.Closed
	// behind is what jobs behind the pod in the queue have reserved.
	behind *backfill.Closed
	// request is the quota request of the pods, together with all other members.
	request *quotas.Request
}

// seatsOf builds the slots for the pods of each class, including what is reserved from them.
func (b bearing) seatsOf(waiting []kind) ([]seat, error) {
	seats, err := seatsOf(waiting)
	for i := range seats {
		seats[i].closed, seats[i].promised = b.reservations.Against(waiting[i].pod), b.promises.Against(waiting[i].pod)
		seats[i].behind = b.promises.Behind(waiting[i].pod)
		seats[i].request = b.request.For(waiting[i].pod)
	}
	return seats, err
}

// seatsOf parses the pods of each class.
func seatsOf(waiting []kind) ([]seat, error) {
	seats := make([]seat, len(waiting))
	for i := range waiting {
		var err error
		if seats[i], err = seatOf(waiting[i].pod); err != nil {
			return nil, err
		}
	}
	return seats, nil
}

// seatOf parses a pod. The error says which part is malformed.
func seatOf(pod *corev1.Pod) (seat, error) {
	demand, err := gpu.DemandOf(pod)
	if err != nil {
		return seat{}, fmt.Errorf("reading what the pod asks for: %w", err)
	}
	types, err := gpu.PodTypes(pod)
	if err != nil {
		return seat{}, fmt.Errorf("reading which GPU types the pod accepts: %w", err)
	}
	s := seat{pod: pod, demand: demand, types: types, pool: gpu.PodPool(pod), nodes: nodeaffinity.GetRequiredNodeAffinity(pod)}
	s.asks, s.alone = cycle.AsksOf(pod), isAlone(pod)
	return s, nil
}

// isOpen reports whether an accessible node takes a pod now. Reservations do not change the generation of a node.
func (s *seat) isOpen(node *corev1.Node, at access) bool {
	return at == now && s.closed.On(node) == nil && !s.request.Shuts(node)
}

// isAlone reports whether a pod uses a host port, or repels pods like itself.
func isAlone(pod *corev1.Pod) bool {
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

// on returns how many such pods a node has room for now, and when it is empty and open; never more than a limit.
func (s *seat) on(info fwk.NodeInfo, b bearing, limit int) (free, empty int) {
	access := s.accessTo(info.Node())
	if access == never {
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
		free = within(max(0, offered-max(0, taken))/ask.Amount, free)
		empty = within(max(0, offered)/ask.Amount, empty)
	}
	if empty > 0 && s.demand.NeedsCards() {
		view := b.cards.Node(info)
		free = within(view.Allocator.Room(&view.Used, &s.demand), free)
		empty = within(view.Allocator.Room(&gpu.Used{}, &s.demand), empty)
	}
	if access == later {
		free = 0
	}
	return free, empty
}

// within caps an amount at a limit.
func within(amount int64, limit int) int { return int(min(amount, int64(limit))) }

// access is whether a pod may use a node.
type access int

const (
	never access = iota
	later        // once the node is ready again, or is no longer cordoned
	now
)

// accessTo checks the node's pool and type, its labels and its taints.
func (s *seat) accessTo(node *corev1.Node) access {
	if node == nil || (s.pool != "" && gpu.PoolOf(node) != s.pool) || !s.types.Match(node) {
		return never
	}
	if fits, err := s.nodes.Match(node); err == nil && !fits { // NodeAffinity reports a malformed affinity
		return never
	}
	taints := node.Spec.Taints
	if node.Spec.Unschedulable {
		taints = append(slices.Clip(taints), corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	access := now
	for i := range taints {
		taint := &taints[i]
		switch {
		case taint.Effect == corev1.TaintEffectPreferNoSchedule,
			corev1helpers.TolerationsTolerateTaint(klog.Background(), s.pod.Spec.Tolerations, taint, false):
		case strings.HasPrefix(taint.Key, ofKubernetes):
			access = later
		default:
			return never
		}
	}
	return access
}

// ofKubernetes is the prefix of the taints by which Kubernetes marks a node as not ready, under pressure, or cordoned. These are temporary.
const ofKubernetes = "node.kubernetes.io/"

// verdict returns why a gang of so many members may not begin to take places, "" if it may. It evicts no pods: that would be decided for one
// member at a time, without knowing how many are missing.
func (r room) verdict(members int) string {
	switch {
	case members <= r.placed+r.free:
		return ""
	case members <= r.placed+r.empty:
		return reason.GangHasRoomForSome.Text.Of(r.placed+r.free, members)
	}
	return reason.GangNeverFits.Text.Of(r.placed+r.empty, members)
}

// lacking returns a resource of minResources of which the nodes that members may use have too little free, including what placed members
// hold; "" for none. Without slots all nodes count.
func lacking(want map[corev1.ResourceName]float64, placed []*corev1.Pod, seats []seat, nodes []fwk.NodeInfo) corev1.ResourceName {
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
		if len(seats) > 0 && !slices.ContainsFunc(seats, func(s seat) bool { return s.isOpen(node.Node(), s.accessTo(node.Node())) }) {
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

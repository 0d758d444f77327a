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

// room is how many members of a gang have a place, and how many of those without one the nodes have room for: free now,
// and on empty nodes. Both are upper bounds: they know nothing of volumes, ports, or affinity between pods.
type room struct{ placed, free, empty int }

// bearing is what of the cluster the room for a gang depends on.
type bearing struct {
	nodes []fwk.NodeInfo
	// kept is what is kept on nodes, by name, for pods that are to come there before the gang.
	kept  map[string][]cycle.Ask
	cards *devices.Ledger
	// whole are the nodes that are kept from a pod for those that want all of one: there is no room for it on those while they are.
	whole sets.Set[string]
	// reservations keep nodes from members, nil for none.
	reservations *follow.Reservations
	// promises are what was promised to other jobs, nil for nothing.
	promises *backfill.Promises
	// request is what quotas say to the members together, nil for nothing.
	request *quotas.Request
	// tables remember what was counted before, nil for none.
	tables *tables
	// steps is how many the searches of one attempt may still take together.
	steps *int
}

// bearingOf is for one attempt.
func (p *Plugin) bearingOf(nodes []fwk.NodeInfo) bearing {
	return bearing{nodes: nodes, cards: p.cards, reservations: p.reservations, promises: p.promises, tables: &p.tables, steps: ptr.To(gangplan.DefaultBudget)}
}

// roomFor counts the room for pods of some kinds, each as if the others were not there.
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

// seat is all that the room for a pod depends on.
type seat struct {
	pod    *corev1.Pod
	demand gpu.Demand
	types  gpu.Types
	pool   string
	nodes  nodeaffinity.RequiredNodeAffinity
	asks   []cycle.Ask
	// alone says that two such pods cannot be on one node.
	alone bool
	// closed are the nodes that are kept from the pod, for as long as they are.
	closed *reservation.Closed
	// promised is what others were promised of the nodes, as of now.
	promised *backfill.Closed
	// behind is what was promised to those behind the pod in line.
	behind *backfill.Closed
	// request is what quotas say to the pods, together with all other members.
	request *quotas.Request
}

// seatsOf reads the pods of each kind, and what of the nodes is kept from them.
func (b bearing) seatsOf(waiting []kind) ([]seat, error) {
	seats, err := seatsOf(waiting)
	for i := range seats {
		seats[i].closed, seats[i].promised = b.reservations.Against(waiting[i].pod), b.promises.Against(waiting[i].pod)
		seats[i].behind = b.promises.Behind(waiting[i].pod)
		seats[i].request = b.request.For(waiting[i].pod)
	}
	return seats, err
}

// seatsOf reads the pods of each kind.
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

// seatOf reads a pod. The error says what of it cannot be read.
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

// isOpen reports whether a node that a pod may go to takes it now. Of what is kept from it no generation of a node tells.
func (s *seat) isOpen(node *corev1.Node, at access) bool {
	return at == now && s.closed.On(node) == nil && !s.request.Shuts(node)
}

// isAlone reports whether a pod takes a port of its node, or keeps those away that are like it.
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

// on is how many such pods a node has room for now, and when it is empty and open; never more than a limit.
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

// within is an amount, but a limit at most.
func within(amount int64, limit int) int { return int(min(amount, int64(limit))) }

// access is whether a pod may go to a node.
type access int

const (
	never access = iota
	later        // when the node is ready again, or is not cordoned any more
	now
)

// accessTo reads the node's pool and type, its labels and its taints.
func (s *seat) accessTo(node *corev1.Node) access {
	if node == nil || (s.pool != "" && gpu.PoolOf(node) != s.pool) || !s.types.Match(node) {
		return never
	}
	if fits, err := s.nodes.Match(node); err == nil && !fits { // what is wrong with the affinity, NodeAffinity tells
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

// ofKubernetes begins the taints by which Kubernetes says that a node is not ready, under pressure, or cordoned: they go
// away again.
const ofKubernetes = "node.kubernetes.io/"

// verdict tells why a gang of so many members may not begin to take places, "" if it may. Nobody is evicted for a gang:
// that would be decided for one member at a time, with no knowledge of how many are missing.
func (r room) verdict(members int) string {
	switch {
	case members <= r.placed+r.free:
		return ""
	case members <= r.placed+r.empty:
		return reason.GangHasRoomForSome.Text.Of(r.placed+r.free, members)
	}
	return reason.GangNeverFits.Text.Of(r.placed+r.empty, members)
}

// lacking returns a resource of minResources of which the nodes that members may go to have too little free, with what the
// members hold that have a place; "" for none. Without seats all nodes count.
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

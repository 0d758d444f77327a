package coscheduling

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gang/partial"
	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gang/podgroup"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/minruntime"
	"g8s.host/gpu-scheduler/pkg/preemption"
)

// occupants is the evictable pods on some nodes.
type occupants struct {
	units []victimUnit
	// on are the evictable pods of each node.
	on [][]occupant
	// protectedUntil is when the first pod protected by its min-runtime may be evicted, the zero time if there is none.
	protectedUntil time.Time
	// budgets are the evictions that each relevant disruption budget allows.
	budgets []int
	// keptByBudget says that a PodDisruptionBudget protects some borrowers.
	keptByBudget bool
}

// victimUnit are pods that are evicted together: a whole gang, or one pod.
type victimUnit struct {
	pods     []*corev1.Pod
	nodes    []int
	priority int64
	loss     int64
	// spends are the disruption budgets that evicting them uses.
	spends []gangplan.Spend
	// isBorrowing says that they have borrowed GPUs from the preemptor.
	isBorrowing bool
}

// occupant is a pod on a node, and its unit; -1 if it is terminating already.
type occupant struct {
	fwk.PodInfo
	unit int
}

// victimCollector collects evictable pods.
type victimCollector struct {
	*Plugin
	*placement.NodeDomain
	own gang
	// request is the quota request of the gang, nil without quotas. service says that the gang is a service of the cluster.
	request *follow.Request
	service bool
	// below is the priority that victims must be below.
	below     int32
	now       time.Time
	occupants occupants
	known     map[gang]int
	// unevictable are gangs with a member that may not be evicted.
	unevictable map[gang]bool
	// only are the allowed victims, including other members of their gangs; nil for all.
	only sets.Set[types.UID]
	// refusedPods are pods whose eviction was refused recently.
	refusedPods map[types.UID]bool
	// members are the live pods of gangs, and minRuntimes the settings of the nodes' pools.
	members     map[gang][]*corev1.Pod
	minRuntimes map[string]names.MinRuntimes
	// pods are the victims without a gang, and nodeOf their nodes.
	pods   []*corev1.Pod
	nodeOf []int
}

// censusOf prepares to collect pods of lower priority on some nodes.
func (p *Plugin) censusOf(s *placement.NodeDomain, own gang, below int32, only sets.Set[types.UID]) *victimCollector {
	now := p.now()
	return &victimCollector{Plugin: p, NodeDomain: s, own: own, request: s.Request, service: !minruntime.AppliesTo(below), below: below, now: now, only: only, known: map[gang]int{}, unevictable: map[gang]bool{},
		refusedPods: p.departures.RefusedPods(now), members: map[gang][]*corev1.Pod{}, minRuntimes: map[string]names.MinRuntimes{}}
}

// collectVictims lists the evictable pods, as far as disruption budgets allow.
func (c *victimCollector) collectVictims() occupants {
	all := 0
	for _, info := range c.Infos {
		all += len(info.GetPods())
	}
	c.occupants.on, c.occupants.units = make([][]occupant, len(c.Infos)), make([]victimUnit, 0, all)
	c.pods, c.nodeOf = make([]*corev1.Pod, 0, all), make([]int, 0, all)
	for node, info := range c.Infos {
		known, pods := c.tables.Weights.LossesOn(c.Nodes, c.Numbers[node]), info.GetPods()
		c.occupants.on[node] = make([]occupant, 0, len(pods))
		for i, on := range pods {
			if known != nil {
				c.addPod(node, on, &known[i])
			} else {
				c.addPod(node, on, nil)
			}
		}
	}
	for _, number := range c.known {
		c.completeUnit(&c.occupants.units[number])
	}
	c.occupants.applyBudgets(preemption.NewBudgets(c.budgets, c.departures.UncountedPods(c.now)))
	return c.occupants
}

// completeUnit adds to a gang its members on other nodes, and the loss of the whole gang.
func (c *victimCollector) completeUnit(unit *victimUnit) {
	unit.pods = c.wholeGang(unit.pods)
	priority := corev1helpers.PodPriority(unit.pods[0])
	for _, pod := range unit.pods {
		priority = max(priority, corev1helpers.PodPriority(pod))
		unit.loss += placement.LossOf(pod, c.now)
	}
	unit.isBorrowing = c.quotaStanding(unit.pods...) == gpuquota.Yields
	unit.priority = victimRank(unit.isBorrowing, priority)
}

// overdueGrace is how long after its grace period a remaining pod is no longer expected to leave. maxLingering is how long a pod deleted by its
// user may take: a user with a grace period of hours must not make others wait while other victims could leave at once. A pod that the scheduler
// evicted has all of its configured grace period, or more pods would be evicted for the same purpose.
const overdueGrace, maxLingering = time.Minute, 5 * time.Minute

// isLeaving reports whether a pod is expected to leave its node soon.
func isLeaving(pod *corev1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp == nil || now.Sub(pod.DeletionTimestamp.Time) >= overdueGrace {
		return false
	}
	left := int64(pod.DeletionTimestamp.Sub(now) / time.Second)
	taken := ptr.Deref(pod.DeletionGracePeriodSeconds, 0) - left // in seconds: some users' values overflow a duration
	return taken < int64(maxLingering/time.Second) || partial.WasPreempted(pod)
}

// addPod adds a pod on a node, with the rest of its gang. known is its cached loss, nil for none.
func (c *victimCollector) addPod(node int, on fwk.PodInfo, known *placement.PodLoss) {
	pod := on.GetPod()
	if pod.DeletionTimestamp != nil {
		if isLeaving(pod, c.now) {
			c.occupants.on[node] = append(c.occupants.on[node], occupant{on, -1})
		}
		return
	}
	standing := c.quotaStanding(pod)
	if !c.mayBeEvicted(pod, standing) {
		return
	}
	unit := len(c.occupants.units)
	if of, group := c.gangOn(pod); group != nil {
		if of == c.own || c.isUnevictable(of, group) || !c.isAllowedVictim(c.liveMembers(of, group)...) {
			return
		}
		number, known := c.known[of]
		if !known {
			c.known[of], number = unit, unit
			c.occupants.units = append(c.occupants.units, victimUnit{})
		}
		unit = number
	} else {
		if c.isProtected(pod) || !c.isAllowedVictim(pod) {
			return
		}
		borrows, at := standing == gpuquota.Yields, len(c.pods)
		c.pods, c.nodeOf = append(c.pods, pod), append(c.nodeOf, node)
		c.occupants.units = append(c.occupants.units, victimUnit{
			pods: c.pods[at : at+1 : at+1], nodes: c.nodeOf[at : at+1 : at+1],
			loss: c.lossOf(pod, known), isBorrowing: borrows, priority: victimRank(borrows, corev1helpers.PodPriority(pod)),
		})
		c.occupants.on[node] = append(c.occupants.on[node], occupant{on, unit})
		return
	}
	of := &c.occupants.units[unit]
	of.pods = append(of.pods, pod)
	of.nodes = append(of.nodes, node)
	c.occupants.on[node] = append(c.occupants.on[node], occupant{on, unit})
}

// lossOf returns the loss of a pod, from the cache if possible.
func (c *victimCollector) lossOf(pod *corev1.Pod, known *placement.PodLoss) int64 {
	if known == nil {
		return placement.LossOf(pod, c.now)
	}
	return placement.LossSince(known.Milli, known.Since, c.now)
}

// gangOn returns the gang of a pod, and no group for a pod that runs without others.
func (p *Plugin) gangOn(pod *corev1.Pod) (gang, *podgroup.Group) {
	name, ok := p.groups.GroupOf(pod)
	if !ok {
		return gang{}, nil
	}
	group := p.groups.GetGroup(name)
	if group.UnusableReason() != "" || group.MinMember < 2 {
		return gang{}, nil
	}
	return gangOf(pod, group), group
}

// isUnevictable reports whether a member of a gang, on any node, may not be evicted, so that none may be.
func (c *victimCollector) isUnevictable(of gang, group *podgroup.Group) bool {
	strong, known := c.unevictable[of]
	if !known {
		mates := c.liveMembers(of, group)
		standing := c.quotaStanding(mates...)
		strong = slices.ContainsFunc(mates, func(pod *corev1.Pod) bool { return !c.mayBeEvicted(pod, standing) }) || c.isProtected(mates...)
		c.unevictable[of] = strong
	}
	return strong
}

// liveMembers returns the live members of a gang, computed once.
func (c *victimCollector) liveMembers(of gang, group *podgroup.Group) []*corev1.Pod {
	known, ok := c.members[of]
	if !ok {
		known = slices.DeleteFunc(c.gangPods(of, group), func(pod *corev1.Pod) bool { return !isLive(pod) || gangOf(pod, group) != of })
		c.members[of] = known
	}
	return known
}

// gonePods returns the pods that have left a node after some units were evicted.
func (c *occupants) gonePods(node int, gone func(unit int) bool) (pods []fwk.PodInfo) {
	return c.appendGone(nil, node, gone)
}

func (c *occupants) appendGone(pods []fwk.PodInfo, node int, gone func(unit int) bool) []fwk.PodInfo {
	for _, o := range c.on[node] {
		if o.unit < 0 || gone(o.unit) {
			pods = append(pods, o.PodInfo)
		}
	}
	return pods
}

// markUnits returns a mask of some units.
func (c *occupants) markUnits(units []int) []bool {
	some := make([]bool, len(c.units))
	for _, unit := range units {
		some[unit] = true
	}
	return some
}

// asUnits returns the units without their pods.
func (c *occupants) asUnits() []gangplan.Unit {
	units := make([]gangplan.Unit, len(c.units))
	for i := range c.units {
		units[i] = c.newUnit(i)
	}
	return units
}

func (c *occupants) newUnit(number int) gangplan.Unit {
	of := &c.units[number]
	return gangplan.Unit{Priority: of.priority, Loss: of.loss, Nodes: of.nodes, Spends: of.spends}
}

// wholeGang adds the members of a unit's gang that are on other nodes, or not yet on one: evicting one member evicts all.
func (c *victimCollector) wholeGang(pods []*corev1.Pod) []*corev1.Pod {
	name, ok := c.groups.GroupOf(pods[0])
	if !ok {
		return pods
	}
	group := c.groups.GetGroup(name)
	if group.UnusableReason() != "" || group.MinMember < 2 {
		return pods
	}
	g, all := gangOf(pods[0], group), slices.Clone(pods)
	known := map[types.UID]bool{}
	for _, pod := range all {
		known[pod.UID] = true
	}
	for _, pod := range c.liveMembers(g, group) {
		if !known[pod.UID] && c.placeOf(pod) != placeNone {
			all = append(all, pod)
		}
	}
	return all
}

// applyBudgets records what each unit spends of disruption budgets, and drops units whose budgets never allow their eviction. Among several
// units of one budget, the search picks the ones whose eviction helps.
func (c *occupants) applyBudgets(b *preemption.Budgets) {
	stays, numbers := make([]bool, len(c.units)), map[*preemption.Budget]int{}
	for i := range c.units {
		unit := &c.units[i]
		costs := b.CountCosts(unit.pods)
		if stays[i] = preemption.ExceedsBudgets(costs); stays[i] {
			c.keptByBudget = c.keptByBudget || unit.isBorrowing
			unit.nodes = nil
			continue
		}
		for _, cost := range costs {
			number, known := numbers[cost.Budget]
			if !known {
				number = len(c.budgets)
				numbers[cost.Budget], c.budgets = number, append(c.budgets, int(cost.Left))
			}
			unit.spends = append(unit.spends, gangplan.Spend{Budget: number, Count: int(cost.Pods)})
		}
	}
	for node, on := range c.on {
		c.on[node] = slices.DeleteFunc(on, func(o occupant) bool { return o.unit >= 0 && stays[o.unit] })
	}
}

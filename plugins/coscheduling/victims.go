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
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpuquota"
	"g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/minruntime"
)

// crowd is who is on the nodes of a site, and may be evicted for a gang.
type crowd struct {
	units []victims
	// on are the pods of each node that may leave, by node.
	on [][]occupant
	// guarded is when the first may leave of those that have not run for their min-runtime, the zero time where there are none.
	guarded time.Time
	// budgets are how many evictions each disruption budget allows that counts some of the units.
	budgets []int
	// budgeted says that a PodDisruptionBudget keeps some who borrow.
	budgeted bool
}

// victims are pods that are evicted together: all of a gang, or one pod.
type victims struct {
	pods     []*corev1.Pod
	nodes    []int
	priority int64
	loss     int64
	// spends are the disruption budgets that evicting them uses up in part.
	spends []gangplan.Spend
	// borrows says that they have the GPUs of those who ask.
	borrows bool
}

// occupant is a pod on a node, and its unit; it is leaving already where that is -1.
type occupant struct {
	fwk.PodInfo
	unit int
}

// census gathers who may be evicted.
type census struct {
	*Plugin
	*site
	own gang
	// request is what quotas say to the gang, nil for nothing, and service that it is one of the cluster.
	request *follow.Request
	service bool
	// below is the priority that victims have to be below of.
	below int32
	now   time.Time
	crowd crowd
	known map[gang]int
	// strong are gangs with a member that may not be evicted.
	strong map[gang]bool
	// only are the pods that may leave, or any other of their gang; nil for all.
	only sets.Set[types.UID]
	// stays are pods that could not be evicted a while ago.
	stays map[types.UID]bool
	// members are the live pods of gangs, and minRuntimes what the pools of nodes say.
	members     map[gang][]*corev1.Pod
	minRuntimes map[string]names.MinRuntimes
	// pods are those that leave alone, and nodeOf the nodes that they are on.
	pods   []*corev1.Pod
	nodeOf []int
}

// censusOf begins to gather those of lower priority on the nodes of a site.
func (p *Plugin) censusOf(s *site, own gang, below int32, only sets.Set[types.UID]) *census {
	now := p.now()
	return &census{Plugin: p, site: s, own: own, request: s.request, service: !minruntime.Binds(below), below: below, now: now, only: only, known: map[gang]int{}, strong: map[gang]bool{},
		stays: p.departures.staysOf(now), members: map[gang][]*corev1.Pod{}, minRuntimes: map[string]names.MinRuntimes{}}
}

// gather lists those who may be evicted, as far as disruption budgets allow.
func (c *census) gather() crowd {
	all := 0
	for _, info := range c.infos {
		all += len(info.GetPods())
	}
	c.crowd.on, c.crowd.units = make([][]occupant, len(c.infos)), make([]victims, 0, all)
	c.pods, c.nodeOf = make([]*corev1.Pod, 0, all), make([]int, 0, all)
	for node, info := range c.infos {
		known, pods := c.tables.weights.weighedOn(c.bearing.nodes, c.numbers[node]), info.GetPods()
		c.crowd.on[node] = make([]occupant, 0, len(pods))
		for i, on := range pods {
			if known != nil {
				c.count(node, on, &known[i])
			} else {
				c.count(node, on, nil)
			}
		}
	}
	for _, number := range c.known {
		c.complete(&c.crowd.units[number])
	}
	c.crowd.keep(newBudgets(c.budgets, c.departures.uncounted(c.now)))
	return c.crowd
}

// complete adds to a gang its members elsewhere, and what all of it loses.
func (c *census) complete(unit *victims) {
	unit.pods = c.whole(unit.pods)
	priority := corev1helpers.PodPriority(unit.pods[0])
	for _, pod := range unit.pods {
		priority = max(priority, corev1helpers.PodPriority(pod))
		unit.loss += lossOf(pod, c.now)
	}
	unit.borrows = c.standing(unit.pods...) == gpuquota.Yields
	unit.priority = lowestIf(unit.borrows, priority)
}

// overdue is how long after its grace period a pod that is there still is not expected to leave any more. lingering is how long one may take
// that its user deletes: who gives it hours would have others wait for those, while there are some who could leave at once. One
// that the scheduler had leave has all the time that it was made with, or others would leave for the same.
const overdue, lingering = time.Minute, 5 * time.Minute

// isLeaving reports whether a pod is expected to leave its node soon.
func isLeaving(pod *corev1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp == nil || now.Sub(pod.DeletionTimestamp.Time) >= overdue {
		return false
	}
	left := int64(pod.DeletionTimestamp.Sub(now) / time.Second)
	taken := ptr.Deref(pod.DeletionGracePeriodSeconds, 0) - left // in seconds: hours of some users are more than a duration holds
	return taken < int64(lingering/time.Second) || wasPreempted(pod)
}

// count notes a pod on a node, and the rest of its gang with it. known is what was weighed of it, nil for nothing.
func (c *census) count(node int, on fwk.PodInfo, known *weighed) {
	pod := on.GetPod()
	if pod.DeletionTimestamp != nil {
		if isLeaving(pod, c.now) {
			c.crowd.on[node] = append(c.crowd.on[node], occupant{on, -1})
		}
		return
	}
	standing := c.standing(pod)
	if !c.leaves(pod, standing) {
		return
	}
	unit := len(c.crowd.units)
	if of, group := c.gangOn(pod); group != nil {
		if of == c.own || c.isStrong(of, group) || !c.isMeant(c.gangmates(of, group)...) {
			return
		}
		number, known := c.known[of]
		if !known {
			c.known[of], number = unit, unit
			c.crowd.units = append(c.crowd.units, victims{})
		}
		unit = number
	} else {
		if c.guards(pod) || !c.isMeant(pod) {
			return
		}
		borrows, at := standing == gpuquota.Yields, len(c.pods)
		c.pods, c.nodeOf = append(c.pods, pod), append(c.nodeOf, node)
		c.crowd.units = append(c.crowd.units, victims{
			pods: c.pods[at : at+1 : at+1], nodes: c.nodeOf[at : at+1 : at+1],
			loss: c.lossOf(pod, known), borrows: borrows, priority: lowestIf(borrows, corev1helpers.PodPriority(pod)),
		})
		c.crowd.on[node] = append(c.crowd.on[node], occupant{on, unit})
		return
	}
	of := &c.crowd.units[unit]
	of.pods = append(of.pods, pod)
	of.nodes = append(of.nodes, node)
	c.crowd.on[node] = append(c.crowd.on[node], occupant{on, unit})
}

// lossOf is what a pod loses, as it was weighed if it was.
func (c *census) lossOf(pod *corev1.Pod, known *weighed) int64 {
	if known == nil {
		return lossOf(pod, c.now)
	}
	return lossSince(known.milli, known.since, c.now)
}

// gangOn returns the gang of a pod, and no group for one that runs without others.
func (p *Plugin) gangOn(pod *corev1.Pod) (gang, *podGroup) {
	name, ok := p.groups.groupOf(pod)
	if !ok {
		return gang{}, nil
	}
	group := p.groups.get(name)
	if unusable(group) != "" || group.minMember < 2 {
		return gang{}, nil
	}
	return gangOf(pod, group), group
}

// isStrong reports whether a member of a gang may not be evicted, so that none is: also one on a node that is no matter here.
func (c *census) isStrong(of gang, group *podGroup) bool {
	strong, known := c.strong[of]
	if !known {
		mates := c.gangmates(of, group)
		standing := c.standing(mates...)
		strong = slices.ContainsFunc(mates, func(pod *corev1.Pod) bool { return !c.leaves(pod, standing) }) || c.guards(mates...)
		c.strong[of] = strong
	}
	return strong
}

// gangmates are the live members of a gang, which are gone through once.
func (c *census) gangmates(of gang, group *podGroup) []*corev1.Pod {
	known, ok := c.members[of]
	if !ok {
		known = slices.DeleteFunc(c.podsIn(of, group), func(pod *corev1.Pod) bool { return !lives(pod) || gangOf(pod, group) != of })
		c.members[of] = known
	}
	return known
}

// lossOf is the work that is lost with a pod: thousandths of GPUs times seconds since it saved its work, or since its start.
// One without GPUs loses as much as a thousandth of one.
func lossOf(pod *corev1.Pod, now time.Time) int64 {
	milli, since := lossRate(pod)
	return lossSince(milli, since, now)
}

// lossRate is what a pod loses a second, and since when; the zero time for one that has not started.
func lossRate(pod *corev1.Pod) (milli int64, since time.Time) {
	if pod.Status.StartTime == nil {
		return 0, time.Time{}
	}
	since = pod.Status.StartTime.Time
	if at := pod.Annotations[names.AnnotationCheckpointedAt]; at != "" { // to find that "" is no time takes as long as all else here
		if saved, err := time.Parse(time.RFC3339, at); err == nil && saved.After(since) {
			since = saved
		}
	}
	milli = 1
	if request, err := gpu.RequestOf(pod); err == nil { // all else of a demand says which cards
		milli = max(milli, (&gpu.Demand{Request: request}).Milli(0))
	}
	return min(milli, mostRate), since
}

// mostRate and mostTime bound what one pod loses, so that those of a cluster can be added up, whatever a clock or a user says.
const mostRate, mostTime = 1 << 20, 1 << 30

func lossSince(milli int64, since, now time.Time) int64 {
	return milli * min(max(0, int64(now.Sub(since)/time.Second)), mostTime)
}

// gone returns the pods that are not on a node any more when some units have left.
func (c *crowd) gone(node int, gone func(unit int) bool) (pods []fwk.PodInfo) {
	return c.appendGone(nil, node, gone)
}

func (c *crowd) appendGone(pods []fwk.PodInfo, node int, gone func(unit int) bool) []fwk.PodInfo {
	for _, o := range c.on[node] {
		if o.unit < 0 || gone(o.unit) {
			pods = append(pods, o.PodInfo)
		}
	}
	return pods
}

// marked says of each unit whether it is one of some.
func (c *crowd) marked(units []int) []bool {
	some := make([]bool, len(c.units))
	for _, unit := range units {
		some[unit] = true
	}
	return some
}

// asUnits returns the units without their pods.
func (c *crowd) asUnits() []gangplan.Unit {
	units := make([]gangplan.Unit, len(c.units))
	for i := range c.units {
		units[i] = c.unit(i)
	}
	return units
}

func (c *crowd) unit(number int) gangplan.Unit {
	of := &c.units[number]
	return gangplan.Unit{Priority: of.priority, Loss: of.loss, Nodes: of.nodes, Spends: of.spends}
}

// whole adds to the pods of a unit those of its gang that are on other nodes, or have none yet: who evicts one evicts all.
func (c *census) whole(pods []*corev1.Pod) []*corev1.Pod {
	name, ok := c.groups.groupOf(pods[0])
	if !ok {
		return pods
	}
	group := c.groups.get(name)
	if unusable(group) != "" || group.minMember < 2 {
		return pods
	}
	g, all := gangOf(pods[0], group), slices.Clone(pods)
	known := map[types.UID]bool{}
	for _, pod := range all {
		known[pod.UID] = true
	}
	for _, pod := range c.gangmates(g, group) {
		if !known[pod.UID] && c.placeOf(pod) != none {
			all = append(all, pod)
		}
	}
	return all
}

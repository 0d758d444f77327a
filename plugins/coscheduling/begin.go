package coscheduling

import (
	"context"
	"hash/maphash"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/reason"
)

// What members are told, in words that gpuctl knows.
var (
	reasonNoGroup = string(reason.GangUnknown.Text)
	reasonBackoff = string(reason.GangTurnedAway.Text)
	reasonGated   = string(reason.GangGated.Text)
	reasonForeign = string(reason.GangForeign.Text)
)

const (
	// reasonWhole is told of each member for which there is no place.
	reasonWhole = string(reason.GangWhole)
	// What members are told that give up their places: another one found none, or lost its own.
	reasonSibling = string(reason.GangSiblingRefused)
	reasonLost    = string(reason.GangSiblingLost)
	// reasonNoEviction is what preemption is told of each node that it could make room on.
	reasonNoEviction = string(reason.GangEvictsNobody)
)

// PreFilter turns a member away while there is no room for all of a gang. Without that gangs would take places and give
// them up again without end, and wake each other up each time. A gang that has begun goes on. No status of it lets others
// be evicted: what is missing is room for several.
//
// Pods of no gang are skipped, and those whose gang runs without them: they are placed like any other.
func (p *Plugin) PreFilter(_ context.Context, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	name, ok := groupOf(pod)
	if !ok || p.finished.before(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	group := p.groups.get(name)
	if reason := unusable(group); reason != "" {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	m := p.membersOf(pod, group)
	if m.bound+1 >= group.minMember {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	g := gangOf(pod, group)
	if reason := p.refuse(g, group, &m, nodes); reason != "" {
		p.places.turnAway(g, pod)
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
	}
	state.Write(stateKey, &dryRun{})
	return nil, nil
}

// unusable says why no gang can be made of a PodGroup, "" if one can.
func unusable(group *podGroup) string {
	switch {
	case group == nil:
		return reasonNoGroup
	case group.problem != "":
		return reason.GangUnusable.Text.Of(group.problem)
	}
	return ""
}

// refuse says why a gang may not begin, "" if it may.
func (p *Plugin) refuse(g gang, group *podGroup, m *members, nodes []fwk.NodeInfo) string {
	if reason := m.missing(group.minMember); reason != "" {
		return reason
	}
	if p.backsOff(g, p.now()) {
		p.tryLater(g, group)
		return reasonBackoff
	}
	if len(m.placed) > m.bound { // this process found room for all, and has given some of it to others
		return ""
	}
	b := bearing{nodes: nodes, cards: p.cards}
	on := basisOf(nodes, group, m)
	b.kept, on.nominated = p.keptFor(g, group, m, nodes)
	if reason := p.places.refused(g, on); reason != "" {
		return reason
	}
	reason := withoutRoom(group, m, b)
	if reason != "" {
		p.places.refuse(g, refusal{on: on, reason: reason})
	}
	return reason
}

// withoutRoom says why there is no room for all members, "" when there may be: also when they are too many kinds, which
// would have to be planned one by one.
func withoutRoom(group *podGroup, m *members, b bearing) string {
	waiting := kindsOf(m.waiting)
	var seats []seat
	unread := error(nil)
	if !waiting.varied {
		seats, unread = seatsOf(waiting.of)
	}
	if name := lacking(group.minResources, m.placed, seats, b.nodes); name != "" {
		return reason.GangLacksResource.Text.Of(name)
	}
	if waiting.varied || unread != nil { // GPUFilter tells what is wrong with the pod
		return ""
	}
	return b.roomFor(waiting.of, seats, len(m.placed)).verdict(group.minMember)
}

// keptFor returns what is kept on nodes for pods that come before the members of a gang: those that preemption or
// gpuctl advise defrag nominated, of the gang's priority or a higher one. Filter has them on the nodes, too, so that members
// would begin and find no place. The second value is a fingerprint of these pods.
func (p *Plugin) keptFor(g gang, group *podGroup, m *members, nodes []fwk.NodeInfo) (kept map[string][]ask, of uint64) {
	least := corev1helpers.PodPriority(m.waiting[0])
	for _, node := range nodes {
		if node.Node() == nil {
			continue
		}
		for _, info := range p.handle.NominatedPodsForNode(node.Node().Name) {
			pod := info.GetPod()
			if name, ok := groupOf(pod); corev1helpers.PodPriority(pod) < least || ok && name == g.group && gangOf(pod, group) == g {
				continue
			}
			if kept == nil {
				kept = map[string][]ask{}
			}
			kept[node.Node().Name] = append(kept[node.Node().Name], asksOf(pod)...)
			of += fingerprint([]*corev1.Pod{pod}) ^ maphash.String(seed, node.Node().Name)
		}
	}
	return kept, of
}

// basisOf is what a verdict on the room rests on. Every change of a node gives its NodeInfo the next generation.
func basisOf(nodes []fwk.NodeInfo, group *podGroup, m *members) basis {
	on := basis{members: fingerprint(m.waiting), nodes: len(nodes), group: string(group.UID) + "/" + group.ResourceVersion, placed: len(m.placed)}
	for _, node := range nodes {
		on.generation = max(on.generation, node.GetGeneration())
	}
	return on
}

// dryRun is the state of a cycle of a member. Evicting is set in the copies of it with which preemption tries what would be
// if some pods were gone.
type dryRun struct{ evicting bool }

// begins says whether PreFilter has let a member begin in this cycle.
func begins(state fwk.CycleState) bool {
	_, err := state.Read(stateKey)
	return err == nil
}

const stateKey fwk.StateKey = "PreFilter" + Name

// Clone implements fwk.StateData.
func (d *dryRun) Clone() fwk.StateData { clone := *d; return &clone }

// PreFilterExtensions returns the plugin: it wants to know when pods are taken away.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod changes nothing.
func (*Plugin) AddPod(context.Context, fwk.CycleState, *corev1.Pod, fwk.PodInfo, fwk.NodeInfo) *fwk.Status {
	return nil
}

// RemovePod notes that a pod is taken off a node, which preemption alone does.
func (*Plugin) RemovePod(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	if data, err := state.Read(stateKey); err == nil {
		if run, ok := data.(*dryRun); ok {
			run.evicting = true
		}
	}
	return nil
}

// Filter lets no member have others evicted: each would evict for itself alone, so that a gang for which one node is
// missing evicted once a member, and one that cannot start for another reason did so over and over.
func (*Plugin) Filter(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ fwk.NodeInfo) *fwk.Status {
	data, err := state.Read(stateKey)
	if err != nil {
		return nil
	}
	if run, ok := data.(*dryRun); ok && run.evicting {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reasonNoEviction)
	}
	return nil
}

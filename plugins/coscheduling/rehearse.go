package coscheduling

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Framework creates values of kube-scheduler's framework that its interface package cannot create.
type Framework struct {
	State   func() fwk.CycleState
	PodInfo func(*corev1.Pod) (fwk.PodInfo, error)
}

// preFilters runs the PreFilter plugins of a profile. The framework implements it, beyond its public interface.
type preFilters interface {
	RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

const (
	// mostSteps bounds one dry run. A step is one filter call for one node, or the addition or removal of a pod for one class. The bound is half
	// a second.
	mostSteps = 200_000
	// bytesInStep is how many bytes of members can be read in the time of a step.
	bytesInStep = 1 << 10
	// mostParts is how many classes of members are distinguished. What exceeds either bound is not checked.
	mostParts = 64
	// mostRehearsals is how many plans are tried in one attempt, not counting those with one member too many in a domain.
	mostRehearsals = 3
	// mostSpreads is the limit for plans of that kind: each has one domain less to fill.
	mostSpreads = 16
)

// rehearsal checks the placement of a gang with the filters of all plugins before any victim is evicted: the plan takes no account of volumes,
// spreading, and affinity between pods. The victims are removed from the nodes, then one member after the other is filtered on its node and
// added to it.
type rehearsal struct {
	*Plugin
	*site
	ctx     context.Context
	filters preFilters
	parts   []*part
	// known are the classes by hash.
	known map[uint64]*part
	// nodes are the nodes without the victims and with the members added so far, by number.
	nodes map[int]fwk.NodeInfo
	left  int
	// others are the evictable pods, by node.
	others map[int][]fwk.PodInfo
	// holders are the nodes that pods with devices leave.
	holders sets.Set[string]
	// taken are the nodes with new members, by number.
	taken sets.Set[int]
}

// part is a class of members that the filters treat alike, with the plugins' state for them.
type part struct {
	pod    *corev1.Pod
	state  fwk.CycleState
	within *fwk.PreFilterResult
	spread *spread
}

// veto is a rejection: where members of a role cannot go, whichever pods leave, and which plugin says so.
type veto struct {
	role int
	// nodes are their names, nil for all.
	nodes sets.Set[string]
	why   string
	// spread says that one domain would have too many.
	spread bool
}

// cast is the placement to dry-run.
type cast struct {
	*site
	kinds []kind
	plan  *gangplan.Plan
	// leaving are the victims, and others all evictable pods, by node.
	leaving, others map[int][]fwk.PodInfo
}

// rehearse returns what keeps a gang from its placement, nil for nothing known, and how many steps the check took.
func (p *Plugin) rehearse(ctx context.Context, c *cast) (refused *veto, steps int) {
	filters, ok := p.handle.(preFilters)
	if !ok || p.framework.State == nil {
		return nil, 0
	}
	r := &rehearsal{Plugin: p, site: c.site, ctx: ctx, filters: filters, nodes: map[int]fwk.NodeInfo{}, known: map[uint64]*part{},
		left: mostSteps, others: c.others, holders: sets.New[string](), taken: sets.New[int]()}
	refused = r.perform(c)
	return refused, mostSteps - r.left
}

// perform removes the victims and adds the members.
func (r *rehearsal) perform(c *cast) *veto {
	of := make([][]*part, len(c.kinds))
	for role := range c.kinds {
		for _, pod := range c.kinds[role].all {
			part, refused := r.partOf(pod, role)
			if refused != nil {
				return refused
			}
			of[role] = append(of[role], part)
		}
	}
	for node, pods := range c.leaving {
		for _, pod := range pods {
			r.leave(node, pod.GetPod())
		}
	}
	for role := range c.kinds {
		for i, node := range c.plan.Places[role] {
			if refused := r.come(node, role, c.kinds[role].all[i], of[role][i]); refused != nil || r.left < 0 {
				return refused
			}
		}
	}
	return nil
}

// partOf returns the class of a member, nil if there are too many.
func (r *rehearsal) partOf(pod *corev1.Pod, role int) (*part, *veto) {
	if r.left < 0 {
		return nil, nil
	}
	key, read := imprintOf(pod, role)
	r.left -= read / bytesInStep
	if known := r.known[key]; known != nil {
		return known, nil
	}
	r.left -= 1 + len(r.bearing.nodes)/16 // some plugins read all of them
	if len(r.parts) == mostParts || r.left < 0 {
		return nil, nil
	}
	made := &part{pod: pod, state: r.framework.State()}
	made.state.Write(stateKey, &attempt{rehearsed: true})
	var status *fwk.Status
	made.within, status, _ = r.filters.RunPreFilterPlugins(r.ctx, made.state, pod)
	if !status.IsSuccess() && status.Code() != fwk.Unschedulable { // which may pass without the victims
		return nil, &veto{role: role, why: told(status)}
	}
	if r.left -= stepsToSpread(pod, len(r.bearing.nodes)); r.left < 0 {
		return nil, nil
	}
	made.spread = spreadOf(pod, r.bearing.nodes)
	r.parts, r.known[key] = append(r.parts, made), made
	return made, nil
}

// at returns a node in its current state of the dry run.
func (r *rehearsal) at(node int) fwk.NodeInfo {
	if r.nodes[node] == nil {
		r.nodes[node] = r.infos[node].Snapshot()
	}
	return r.nodes[node]
}

// leave removes a pod from a node.
func (r *rehearsal) leave(node int, pod *corev1.Pod) {
	info := r.at(node)
	if len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil {
		r.holders.Insert(info.Node().Name)
	}
	r.takeOff(info, pod, r.parts)
}

// takeOff removes a pod from a node and updates the given classes. It returns the removed pod, nil if it was not there.
func (r *rehearsal) takeOff(info fwk.NodeInfo, pod *corev1.Pod, parts []*part) fwk.PodInfo {
	at := slices.IndexFunc(info.GetPods(), func(on fwk.PodInfo) bool { return on.GetPod().UID == pod.UID })
	if at < 0 {
		return nil
	}
	on := info.GetPods()[at]
	if err := info.RemovePod(klog.FromContext(r.ctx), pod); err != nil {
		return nil // it is there
	}
	for _, part := range parts {
		r.left--
		part.spread.change(pod, info.Node(), -1)
		r.handle.RunPreFilterExtensionRemovePod(r.ctx, part.state, part.pod, on, info)
	}
	return on
}

// come filters a member on its node and adds it there. A member without a class is added unchecked.
func (r *rehearsal) come(node, role int, pod *corev1.Pod, of *part) *veto {
	if of != nil {
		r.left -= of.spread.steps()
		if key := of.spread.refuses(r.infos[node].Node()); key != "" {
			return r.tooMany(node, role, key)
		}
		if why := r.refusal(r.at(node), pod, of); why != nil && (!lacksDevices(why) || !r.holders.Has(r.infos[node].Node().Name)) {
			refused := &veto{role: role, nodes: r.unfit(pod, of), why: told(why)}
			refused.nodes.Insert(r.infos[node].Node().Name)
			return refused
		}
	}
	info, err := r.framework.PodInfo(pod)
	if err != nil {
		return &veto{role: role, why: err.Error()} // an affinity that cannot be read
	}
	r.at(node).AddPodInfo(info)
	r.taken.Insert(node)
	for _, part := range r.parts {
		r.left--
		part.spread.change(pod, r.infos[node].Node(), 1)
		r.handle.RunPreFilterExtensionAddPod(r.ctx, part.state, part.pod, info, r.at(node))
	}
	return nil
}

// tooMany restricts the members of a role to the nodes of a domain that already have some.
func (r *rehearsal) tooMany(node, role int, key string) *veto {
	domain, names := r.infos[node].Node().Labels[key], sets.New[string]()
	for other, info := range r.infos {
		if label, ok := info.Node().Labels[key]; ok && label == domain && !r.taken.Has(other) {
			names.Insert(info.Node().Name)
		}
	}
	why := fwk.NewStatus(fwk.Unschedulable, reason.SpreadTooUnevenly.Text.Of()).WithPlugin("PodTopologySpread")
	return &veto{role: role, nodes: names, spread: true, why: told(why)}
}

// refusal returns the filters' rejection of a member on a node, nil for none.
func (r *rehearsal) refusal(info fwk.NodeInfo, pod *corev1.Pod, of *part) *fwk.Status {
	if !of.within.AllNodes() && !of.within.NodeNames.Has(info.Node().Name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another plugin has it on other nodes")
	}
	r.left--
	if status := r.handle.RunFilterPlugins(r.ctx, of.state, pod, info); !status.IsSuccess() {
		return status
	}
	return nil
}

// unfit returns the nodes that a member cannot use whichever pods leave, such as those without access to its volume.
func (r *rehearsal) unfit(pod *corev1.Pod, of *part) sets.Set[string] {
	names := sets.New[string]()
	for node, info := range r.infos {
		if then := r.nodes[node]; then != nil {
			info = then
		}
		if r.left < 0 {
			break
		}
		why := r.refusal(info, pod, of)
		if why.Code() == fwk.Unschedulable {
			why = r.refusalWithout(r.others[node], info, pod, of)
		}
		if why.Code() == fwk.UnschedulableAndUnresolvable && !lacksDevices(why) {
			names.Insert(info.Node().Name)
		}
	}
	return names
}

// refusalWithout returns the filters' rejection of a member on a node without some pods. The first filter to reject decides, and while the node
// is full that is not the one that checks volumes. Members with pod affinity are not checked: the pods that the affinity refers to might be
// among those removed.
func (r *rehearsal) refusalWithout(others []fwk.PodInfo, info fwk.NodeInfo, pod *corev1.Pod, of *part) *fwk.Status {
	if affinity := pod.Spec.Affinity; len(others) == 0 || affinity != nil && affinity.PodAffinity != nil {
		return nil
	}
	r.left -= len(info.GetPods()) / 16 // which are copied
	info, member := info.Snapshot(), []*part{of}
	var off []fwk.PodInfo
	for _, other := range others {
		if on := r.takeOff(info, other.GetPod(), member); on != nil {
			off = append(off, on)
		}
	}
	why := r.refusal(info, pod, of)
	for _, on := range off {
		info.AddPodInfo(on)
		r.left--
		of.spread.change(on.GetPod(), info.Node(), 1)
		r.handle.RunPreFilterExtensionAddPod(r.ctx, of.state, of.pod, on, info)
	}
	return why
}

// lacksDevices reports whether a node has too few free devices for the ResourceClaims of a pod. Kubernetes' DynamicResources reports that as
// unresolvable. It does not count devices that the victims of a dry run hold as free, because claims are not part of a dry run. If the claim is
// already allocated on another node, the message differs (dynamicresources.go of kube-scheduler 1.37).
func lacksDevices(status *fwk.Status) bool {
	return status.IsRejected() && status.Plugin() == "DynamicResources" && status.Message() != "resourceclaim not available on the node"
}

func told(status *fwk.Status) string {
	if status.Plugin() == "" {
		return status.Message()
	}
	return fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
}

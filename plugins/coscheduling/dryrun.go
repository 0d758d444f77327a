package coscheduling

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/pkg/gang/placement"
	"g8s.host/gpu-scheduler/pkg/gangplan"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Framework creates values of kube-scheduler's framework that its interface package cannot create.
type Framework struct {
	State   func() fwk.CycleState
	PodInfo func(*corev1.Pod) (fwk.PodInfo, error)
}

// preFilterRunner runs the PreFilter plugins of a profile. The framework implements it, beyond its public interface.
type preFilterRunner interface {
	RunPreFilterPlugins(context.Context, fwk.CycleState, *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
}

// dryRunner is what dry runs use of kube-scheduler.
type dryRunner struct {
	handle    fwk.Handle
	framework Framework
	// markState marks the state of a cycle as that of a dry run.
	markState func(fwk.CycleState)
}

const (
	// maxDryRunSteps bounds one dry run. A step is one filter call for one node, or the addition or removal of a pod for one class. The bound is half
	// a second.
	maxDryRunSteps = 200_000
	// bytesInStep is how many bytes of members can be read in the time of a step.
	bytesInStep = 1 << 10
	// maxFilterClasses is how many classes of members are distinguished. What exceeds either bound is not checked.
	maxFilterClasses = 64
	// maxDryRuns is how many plans are tried in one attempt, not counting those with one member too many in a domain.
	maxDryRuns = 3
	// maxSpreadDryRuns is the limit for plans of that kind: each has one domain less to fill.
	maxSpreadDryRuns = 16
)

// dryRun checks the placement of a gang with the filters of all plugins before any victim is evicted: the plan takes no account of volumes,
// spreading, and affinity between pods. The victims are removed from the nodes, then one member after the other is filtered on its node and
// added to it.
type dryRun struct {
	dryRunner
	*placement.NodeDomain
	ctx     context.Context
	filters preFilterRunner
	classes []*filterClass
	// classByHash are the classes by hash.
	classByHash map[uint64]*filterClass
	// nodes are the nodes without the victims and with the members added so far, by number.
	nodes map[int]fwk.NodeInfo
	left  int
	// others are the evictable pods, by node.
	others map[int][]fwk.PodInfo
	// deviceNodes are the nodes that pods with devices leave.
	deviceNodes sets.Set[string]
	// taken are the nodes with new members, by number.
	taken sets.Set[int]
}

// filterClass is a class of members that the filters treat alike, with the plugins' state for them.
type filterClass struct {
	pod    *corev1.Pod
	state  fwk.CycleState
	within *fwk.PreFilterResult
	spread *placement.SpreadState
}

// rejection is a rejection: where members of a role cannot go, whichever pods leave, and which plugin says so.
type rejection struct {
	role int
	// nodes are their names, nil for all.
	nodes sets.Set[string]
	why   string
	// spread says that one domain would have too many.
	spread bool
}

// plannedPlacement is the placement to dry-run.
type plannedPlacement struct {
	*placement.NodeDomain
	kinds []placement.PodClass
	plan  *gangplan.Plan
	// leaving are the victims, and others all evictable pods, by node.
	leaving, others map[int][]fwk.PodInfo
}

// dryRunPlacement returns what keeps a gang from its placement, nil for nothing known, and how many steps the check took.
func (d dryRunner) dryRunPlacement(ctx context.Context, c *plannedPlacement) (refused *rejection, steps int) {
	filters, ok := d.handle.(preFilterRunner)
	if !ok || d.framework.State == nil {
		return nil, 0
	}
	r := &dryRun{dryRunner: d, NodeDomain: c.NodeDomain, ctx: ctx, filters: filters, nodes: map[int]fwk.NodeInfo{}, classByHash: map[uint64]*filterClass{},
		left: maxDryRunSteps, others: c.others, deviceNodes: sets.New[string](), taken: sets.New[int]()}
	refused = r.runPlacement(c)
	return refused, maxDryRunSteps - r.left
}

// runPlacement removes the victims and adds the members.
func (r *dryRun) runPlacement(c *plannedPlacement) *rejection {
	of := make([][]*filterClass, len(c.kinds))
	for role := range c.kinds {
		for _, pod := range c.kinds[role].Pods {
			part, refused := r.classOf(pod, role)
			if refused != nil {
				return refused
			}
			of[role] = append(of[role], part)
		}
	}
	for node, pods := range c.leaving {
		for _, pod := range pods {
			r.removeVictim(node, pod.GetPod())
		}
	}
	for role := range c.kinds {
		for i, node := range c.plan.Places[role] {
			if refused := r.placeMember(node, role, c.kinds[role].Pods[i], of[role][i]); refused != nil || r.left < 0 {
				return refused
			}
		}
	}
	return nil
}

// classOf returns the class of a member, nil if there are too many.
func (r *dryRun) classOf(pod *corev1.Pod, role int) (*filterClass, *rejection) {
	if r.left < 0 {
		return nil, nil
	}
	key, read := placement.HashPod(pod, role)
	r.left -= read / bytesInStep
	if known := r.classByHash[key]; known != nil {
		return known, nil
	}
	r.left -= 1 + len(r.ClusterSnapshot.Nodes)/16 // some plugins read all of them
	if len(r.classes) == maxFilterClasses || r.left < 0 {
		return nil, nil
	}
	made := &filterClass{pod: pod, state: r.framework.State()}
	r.markState(made.state)
	var status *fwk.Status
	made.within, status, _ = r.filters.RunPreFilterPlugins(r.ctx, made.state, pod)
	if !status.IsSuccess() && status.Code() != fwk.Unschedulable { // which may pass without the victims
		return nil, &rejection{role: role, why: rejectionText(status)}
	}
	if r.left -= placement.StepsToSpread(pod, len(r.ClusterSnapshot.Nodes)); r.left < 0 {
		return nil, nil
	}
	made.spread = placement.NewSpreadState(pod, r.ClusterSnapshot.Nodes)
	r.classes, r.classByHash[key] = append(r.classes, made), made
	return made, nil
}

// nodeState returns a node in its current state of the dry run.
func (r *dryRun) nodeState(node int) fwk.NodeInfo {
	if r.nodes[node] == nil {
		r.nodes[node] = r.Infos[node].Snapshot()
	}
	return r.nodes[node]
}

// removeVictim removes a pod from a node.
func (r *dryRun) removeVictim(node int, pod *corev1.Pod) {
	info := r.nodeState(node)
	if len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil {
		r.deviceNodes.Insert(info.Node().Name)
	}
	r.removeFrom(info, pod, r.classes)
}

// removeFrom removes a pod from a node and updates the given classes. It returns the removed pod, nil if it was not there.
func (r *dryRun) removeFrom(info fwk.NodeInfo, pod *corev1.Pod, parts []*filterClass) fwk.PodInfo {
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
		part.spread.RecordPod(pod, info.Node(), -1)
		r.handle.RunPreFilterExtensionRemovePod(r.ctx, part.state, part.pod, on, info)
	}
	return on
}

// placeMember filters a member on its node and adds it there. A member without a class is added unchecked.
func (r *dryRun) placeMember(node, role int, pod *corev1.Pod, of *filterClass) *rejection {
	if of != nil {
		r.left -= of.spread.CountSteps()
		if key := of.spread.ViolatedKey(r.Infos[node].Node()); key != "" {
			return r.rejectDomain(node, role, key)
		}
		if why := r.filterRefusal(r.nodeState(node), pod, of); why != nil && (!lacksDevices(why) || !r.deviceNodes.Has(r.Infos[node].Node().Name)) {
			refused := &rejection{role: role, nodes: r.unfitNodes(pod, of), why: rejectionText(why)}
			refused.nodes.Insert(r.Infos[node].Node().Name)
			return refused
		}
	}
	info, err := r.framework.PodInfo(pod)
	if err != nil {
		return &rejection{role: role, why: err.Error()} // an affinity that cannot be read
	}
	r.nodeState(node).AddPodInfo(info)
	r.taken.Insert(node)
	for _, part := range r.classes {
		r.left--
		part.spread.RecordPod(pod, r.Infos[node].Node(), 1)
		r.handle.RunPreFilterExtensionAddPod(r.ctx, part.state, part.pod, info, r.nodeState(node))
	}
	return nil
}

// rejectDomain restricts the members of a role to the nodes of a domain that already have some.
func (r *dryRun) rejectDomain(node, role int, key string) *rejection {
	domain, names := r.Infos[node].Node().Labels[key], sets.New[string]()
	for other, info := range r.Infos {
		if label, ok := info.Node().Labels[key]; ok && label == domain && !r.taken.Has(other) {
			names.Insert(info.Node().Name)
		}
	}
	why := fwk.NewStatus(fwk.Unschedulable, reason.SpreadTooUnevenly.Text.FormatText()).WithPlugin("PodTopologySpread")
	return &rejection{role: role, nodes: names, spread: true, why: rejectionText(why)}
}

// filterRefusal returns the filters' rejection of a member on a node, nil for none.
func (r *dryRun) filterRefusal(info fwk.NodeInfo, pod *corev1.Pod, of *filterClass) *fwk.Status {
	if !of.within.AllNodes() && !of.within.NodeNames.Has(info.Node().Name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another plugin has it on other nodes")
	}
	r.left--
	if status := r.handle.RunFilterPlugins(r.ctx, of.state, pod, info); !status.IsSuccess() {
		return status
	}
	return nil
}

// unfitNodes returns the nodes that a member cannot use whichever pods leave, such as those without access to its volume.
func (r *dryRun) unfitNodes(pod *corev1.Pod, of *filterClass) sets.Set[string] {
	names := sets.New[string]()
	for node, info := range r.Infos {
		if then := r.nodes[node]; then != nil {
			info = then
		}
		if r.left < 0 {
			break
		}
		why := r.filterRefusal(info, pod, of)
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
func (r *dryRun) refusalWithout(others []fwk.PodInfo, info fwk.NodeInfo, pod *corev1.Pod, of *filterClass) *fwk.Status {
	if affinity := pod.Spec.Affinity; len(others) == 0 || affinity != nil && affinity.PodAffinity != nil {
		return nil
	}
	r.left -= len(info.GetPods()) / 16 // which are copied
	info, member := info.Snapshot(), []*filterClass{of}
	var off []fwk.PodInfo
	for _, other := range others {
		if on := r.removeFrom(info, other.GetPod(), member); on != nil {
			off = append(off, on)
		}
	}
	why := r.filterRefusal(info, pod, of)
	for _, on := range off {
		info.AddPodInfo(on)
		r.left--
		of.spread.RecordPod(on.GetPod(), info.Node(), 1)
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

func rejectionText(status *fwk.Status) string {
	if status.Plugin() == "" {
		return status.Message()
	}
	return fmt.Sprintf("%s: %s", status.Plugin(), status.Message())
}

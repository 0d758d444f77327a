package preemption

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

// DryRunner is what dry runs use of kube-scheduler.
type DryRunner struct {
	Handle    fwk.Handle
	Framework Framework
	// MarkState marks the state of a cycle as that of a dry run.
	MarkState func(fwk.CycleState)
}

const (
	// MaxDryRunSteps bounds one dry run. A step is one filter call for one node, or the addition or removal of a pod for one class. The bound is half
	// a second.
	MaxDryRunSteps = 200_000
	// BytesInStep is how many bytes of members can be read in the time of a step.
	BytesInStep = 1 << 10
	// maxFilterClasses is how many classes of members are distinguished. What exceeds either bound is not checked.
	maxFilterClasses = 64
	// MaxDryRuns is how many plans are tried in one attempt, not counting those with one member too many in a domain.
	MaxDryRuns = 3
	// MaxSpreadDryRuns is the limit for plans of that kind: each has one domain less to fill.
	MaxSpreadDryRuns = 16
)

// DryRun checks the placement of a gang with the filters of all plugins before any victim is evicted: the plan takes no account of volumes,
// spreading, and affinity between pods. The victims are removed from the nodes, then one member after the other is filtered on its node and
// added to it.
type DryRun struct {
	DryRunner
	*placement.NodeDomain
	Ctx     context.Context
	Filters preFilterRunner
	classes []*FilterClass
	// ClassByHash are the classes by hash.
	ClassByHash map[uint64]*FilterClass
	// nodes are the nodes without the victims and with the members added so far, by number.
	nodes map[int]fwk.NodeInfo
	Left  int
	// others are the evictable pods, by node.
	others map[int][]fwk.PodInfo
	// deviceNodes are the nodes that pods with devices leave.
	deviceNodes sets.Set[string]
	// taken are the nodes with new members, by number.
	taken sets.Set[int]
}

// FilterClass is a class of members that the filters treat alike, with the plugins' state for them.
type FilterClass struct {
	pod    *corev1.Pod
	state  fwk.CycleState
	within *fwk.PreFilterResult
	spread *placement.SpreadState
}

// Rejection is a rejection: where members of a role cannot go, whichever pods leave, and which plugin says so.
type Rejection struct {
	Role int
	// Nodes are their names, nil for all.
	Nodes sets.Set[string]
	Why   string
	// Spread says that one domain would have too many.
	Spread bool
}

// PlannedPlacement is the placement to dry-run.
type PlannedPlacement struct {
	*placement.NodeDomain
	Kinds []placement.PodClass
	Plan  *gangplan.Plan
	// Leaving are the victims, and others all evictable pods, by node.
	Leaving, Others map[int][]fwk.PodInfo
}

// DryRunPlacement returns what keeps a gang from its placement, nil for nothing known, and how many steps the check took.
func (d DryRunner) DryRunPlacement(ctx context.Context, c *PlannedPlacement) (refused *Rejection, steps int) {
	filters, ok := d.Handle.(preFilterRunner)
	if !ok || d.Framework.State == nil {
		return nil, 0
	}
	r := &DryRun{DryRunner: d, NodeDomain: c.NodeDomain, Ctx: ctx, Filters: filters, nodes: map[int]fwk.NodeInfo{}, ClassByHash: map[uint64]*FilterClass{},
		Left: MaxDryRunSteps, others: c.Others, deviceNodes: sets.New[string](), taken: sets.New[int]()}
	refused = r.runPlacement(c)
	return refused, MaxDryRunSteps - r.Left
}

// runPlacement removes the victims and adds the members.
func (r *DryRun) runPlacement(c *PlannedPlacement) *Rejection {
	of := make([][]*FilterClass, len(c.Kinds))
	for role := range c.Kinds {
		for _, pod := range c.Kinds[role].Pods {
			part, refused := r.ClassOf(pod, role)
			if refused != nil {
				return refused
			}
			of[role] = append(of[role], part)
		}
	}
	for node, pods := range c.Leaving {
		for _, pod := range pods {
			r.removeVictim(node, pod.GetPod())
		}
	}
	for role := range c.Kinds {
		for i, node := range c.Plan.Places[role] {
			if refused := r.placeMember(node, role, c.Kinds[role].Pods[i], of[role][i]); refused != nil || r.Left < 0 {
				return refused
			}
		}
	}
	return nil
}

// ClassOf returns the class of a member, nil if there are too many.
func (r *DryRun) ClassOf(pod *corev1.Pod, role int) (*FilterClass, *Rejection) {
	if r.Left < 0 {
		return nil, nil
	}
	key, read := placement.HashPod(pod, role)
	r.Left -= read / BytesInStep
	if known := r.ClassByHash[key]; known != nil {
		return known, nil
	}
	r.Left -= 1 + len(r.Nodes)/16 // some plugins read all of them
	if len(r.classes) == maxFilterClasses || r.Left < 0 {
		return nil, nil
	}
	made := &FilterClass{pod: pod, state: r.Framework.State()}
	r.MarkState(made.state)
	var status *fwk.Status
	made.within, status, _ = r.Filters.RunPreFilterPlugins(r.Ctx, made.state, pod)
	if !status.IsSuccess() && status.Code() != fwk.Unschedulable { // which may pass without the victims
		return nil, &Rejection{Role: role, Why: rejectionText(status)}
	}
	if r.Left -= placement.StepsToSpread(pod, len(r.Nodes)); r.Left < 0 {
		return nil, nil
	}
	made.spread = placement.NewSpreadState(pod, r.Nodes)
	r.classes, r.ClassByHash[key] = append(r.classes, made), made
	return made, nil
}

// nodeState returns a node in its current state of the dry run.
func (r *DryRun) nodeState(node int) fwk.NodeInfo {
	if r.nodes[node] == nil {
		r.nodes[node] = r.Infos[node].Snapshot()
	}
	return r.nodes[node]
}

// removeVictim removes a pod from a node.
func (r *DryRun) removeVictim(node int, pod *corev1.Pod) {
	info := r.nodeState(node)
	if len(pod.Spec.ResourceClaims) > 0 || pod.Status.ExtendedResourceClaimStatus != nil {
		r.deviceNodes.Insert(info.Node().Name)
	}
	r.removeFrom(info, pod, r.classes)
}

// removeFrom removes a pod from a node and updates the given classes. It returns the removed pod, nil if it was not there.
func (r *DryRun) removeFrom(info fwk.NodeInfo, pod *corev1.Pod, parts []*FilterClass) fwk.PodInfo {
	at := slices.IndexFunc(info.GetPods(), func(on fwk.PodInfo) bool { return on.GetPod().UID == pod.UID })
	if at < 0 {
		return nil
	}
	on := info.GetPods()[at]
	if err := info.RemovePod(klog.FromContext(r.Ctx), pod); err != nil {
		return nil // it is there
	}
	for _, part := range parts {
		r.Left--
		part.spread.RecordPod(pod, info.Node(), -1)
		r.Handle.RunPreFilterExtensionRemovePod(r.Ctx, part.state, part.pod, on, info)
	}
	return on
}

// placeMember filters a member on its node and adds it there. A member without a class is added unchecked.
func (r *DryRun) placeMember(node, role int, pod *corev1.Pod, of *FilterClass) *Rejection {
	if of != nil {
		r.Left -= of.spread.CountSteps()
		if key := of.spread.ViolatedKey(r.Infos[node].Node()); key != "" {
			return r.rejectDomain(node, role, key)
		}
		if why := r.filterRefusal(r.nodeState(node), pod, of); why != nil && (!lacksDevices(why) || !r.deviceNodes.Has(r.Infos[node].Node().Name)) {
			refused := &Rejection{Role: role, Nodes: r.unfitNodes(pod, of), Why: rejectionText(why)}
			refused.Nodes.Insert(r.Infos[node].Node().Name)
			return refused
		}
	}
	info, err := r.Framework.PodInfo(pod)
	if err != nil {
		return &Rejection{Role: role, Why: err.Error()} // an affinity that cannot be read
	}
	r.nodeState(node).AddPodInfo(info)
	r.taken.Insert(node)
	for _, part := range r.classes {
		r.Left--
		part.spread.RecordPod(pod, r.Infos[node].Node(), 1)
		r.Handle.RunPreFilterExtensionAddPod(r.Ctx, part.state, part.pod, info, r.nodeState(node))
	}
	return nil
}

// rejectDomain restricts the members of a role to the nodes of a domain that already have some.
func (r *DryRun) rejectDomain(node, role int, key string) *Rejection {
	domain, names := r.Infos[node].Node().Labels[key], sets.New[string]()
	for other, info := range r.Infos {
		if label, ok := info.Node().Labels[key]; ok && label == domain && !r.taken.Has(other) {
			names.Insert(info.Node().Name)
		}
	}
	why := fwk.NewStatus(fwk.Unschedulable, reason.SpreadTooUnevenly.Text.FormatText()).WithPlugin("PodTopologySpread")
	return &Rejection{Role: role, Nodes: names, Spread: true, Why: rejectionText(why)}
}

// filterRefusal returns the filters' rejection of a member on a node, nil for none.
func (r *DryRun) filterRefusal(info fwk.NodeInfo, pod *corev1.Pod, of *FilterClass) *fwk.Status {
	if !of.within.AllNodes() && !of.within.NodeNames.Has(info.Node().Name) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "another plugin has it on other nodes")
	}
	r.Left--
	if status := r.Handle.RunFilterPlugins(r.Ctx, of.state, pod, info); !status.IsSuccess() {
		return status
	}
	return nil
}

// unfitNodes returns the nodes that a member cannot use whichever pods leave, such as those without access to its volume.
func (r *DryRun) unfitNodes(pod *corev1.Pod, of *FilterClass) sets.Set[string] {
	names := sets.New[string]()
	for node, info := range r.Infos {
		if then := r.nodes[node]; then != nil {
			info = then
		}
		if r.Left < 0 {
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
func (r *DryRun) refusalWithout(others []fwk.PodInfo, info fwk.NodeInfo, pod *corev1.Pod, of *FilterClass) *fwk.Status {
	if affinity := pod.Spec.Affinity; len(others) == 0 || affinity != nil && affinity.PodAffinity != nil {
		return nil
	}
	r.Left -= len(info.GetPods()) / 16 // which are copied
	info, member := info.Snapshot(), []*FilterClass{of}
	var off []fwk.PodInfo
	for _, other := range others {
		if on := r.removeFrom(info, other.GetPod(), member); on != nil {
			off = append(off, on)
		}
	}
	why := r.filterRefusal(info, pod, of)
	for _, on := range off {
		info.AddPodInfo(on)
		r.Left--
		of.spread.RecordPod(on.GetPod(), info.Node(), 1)
		r.Handle.RunPreFilterExtensionAddPod(r.Ctx, of.state, of.pod, on, info)
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

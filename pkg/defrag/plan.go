package defrag

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Why a pod is not helped.
const (
	whyUnreadable = "what it asks cannot be read: "
	whyTied       = "its place depends on more than nodes show: claimed volumes, affinity between pods or a hard spread"
	whyNoNode     = "no node of its pool and type could hold it, were the node empty"
	whyFixed      = "too much of what is in the way cannot be moved"
	whyNowhere    = "what is in the way has no other place to go, or would take too many moves"
	whyGang       = "not all pods of its gang can be helped"
)

// Plan finds the fewest moves for each pod that waits, in the scheduler's order: by priority, then the longest wait.
// A gang is helped whole or not at all. Moves for one pod are the fewest that the search finds, see maxTries; for all of
// them together they need not be, as each takes the place it finds.
func Plan(facts *Facts, limits Limits) Advice {
	p := newPlanner(facts, limits)
	advice := Advice{Proposals: []Proposal{}, Unhelped: []Unhelped{}}
	for _, group := range units(facts.Waiting) {
		proposals, unhelped := p.help(group)
		advice.Proposals = append(advice.Proposals, proposals...)
		advice.Unhelped = append(advice.Unhelped, unhelped...)
	}
	return advice
}

// units returns the waiting pods in the order of the queue, the members of a gang together.
func units(waiting []corev1.Pod) [][]*corev1.Pod {
	byGang := map[[2]string]int{}
	var out [][]*corev1.Pod
	for _, pod := range inQueue(waiting) {
		gang := pod.Labels[names.LabelPodGroup]
		at, ok := byGang[[2]string{pod.Namespace, gang}]
		if gang == "" || !ok {
			byGang[[2]string{pod.Namespace, gang}] = len(out)
			out = append(out, []*corev1.Pod{pod})
			continue
		}
		out[at] = append(out[at], pod)
	}
	return out
}

func inQueue(waiting []corev1.Pod) []*corev1.Pod {
	out := make([]*corev1.Pod, len(waiting))
	for i := range waiting {
		out[i] = &waiting[i]
	}
	slices.SortStableFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(schedulinghelper.PodPriority(b), schedulinghelper.PodPriority(a)),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// planner is the cluster as it will be after the proposals made so far.
type planner struct {
	limits Limits
	nodes  []*fit.Node // sorted by name
	// movable are the pods of a node that can bear to be moved and have not been, those that hold most first.
	movable map[*fit.Node][]*fit.Request
}

func newPlanner(facts *Facts, limits Limits) *planner {
	p := &planner{limits: limits, movable: map[*fit.Node][]*fit.Request{}}
	pods := map[string][]*corev1.Pod{}
	for i := range facts.Running {
		pod := &facts.Running[i]
		pods[pod.Spec.NodeName] = append(pods[pod.Spec.NodeName], pod)
	}
	var topologies gpu.Topologies
	for i := range facts.Nodes {
		node := fit.NewNode(&facts.Nodes[i], pods[facts.Nodes[i].Name], &topologies)
		p.nodes = append(p.nodes, node)
		for _, pod := range pods[node.Object.Name] {
			request, err := fit.RequestOf(pod)
			if err == nil && request.Demand.NeedsCards() && facts.movable(pod, limits) {
				p.movable[node] = append(p.movable[node], request)
			}
		}
		slices.SortFunc(p.movable[node], func(a, b *fit.Request) int {
			return cmp.Or(cmp.Compare(asked(b), asked(a)), cmp.Compare(a.Pod.Namespace, b.Pod.Namespace), cmp.Compare(a.Pod.Name, b.Pod.Name))
		})
	}
	slices.SortFunc(p.nodes, func(a, b *fit.Node) int { return cmp.Compare(a.Object.Name, b.Object.Name) })
	return p
}

// asked is how many cards a pod asks for, whole or shared.
func asked(r *fit.Request) int64 { return max(r.Demand.Whole, r.Demand.Shared) }

// help plans for one pod or one gang.
func (p *planner) help(group []*corev1.Pod) ([]Proposal, []Unhelped) {
	var proposals []Proposal
	var undo []func()
	before := maps.Clone(p.movable)
	for i, pod := range group {
		proposal, back, why := p.helpOne(pod)
		if why == "" {
			proposals, undo = append(proposals, proposal), append(undo, back)
			continue
		}
		for _, back := range slices.Backward(undo) {
			back()
		}
		p.movable = before
		return nil, unhelped(group, i, why)
	}
	return proposals, nil
}

// unhelped gives the reason of one pod, which is that of all others of its gang.
func unhelped(group []*corev1.Pod, first int, why string) []Unhelped {
	out := make([]Unhelped, len(group))
	for i, pod := range group {
		out[i] = Unhelped{Ref: refOf(pod), Why: whyGang}
	}
	out[first].Why = why
	return out
}

// helpOne finds a place for one pod, and takes it. The function it returns undoes that. why is "" on success.
func (p *planner) helpOne(pod *corev1.Pod) (proposal Proposal, undo func(), why string) {
	request, err := fit.RequestOf(pod)
	switch {
	case err != nil:
		return proposal, nil, whyUnreadable + err.Error()
	case tied(pod):
		return proposal, nil, whyTied
	}
	proposal.Ref, proposal.Moves = refOf(pod), []Move{}
	if node := p.roomFor(request, nil); node != nil {
		proposal.Node = node.Object.Name
		node.Place(request)
		return proposal, func() { node.Remove(pod) }, ""
	}
	best, why := p.clear(request)
	if best == nil {
		return proposal, nil, why
	}
	return p.take(best, request, proposal)
}

// roomFor returns the node on which a pod fits as things are and fewest cards are left over, but not on one.
func (p *planner) roomFor(request *fit.Request, but *fit.Node) (best *fit.Node) {
	for _, node := range p.nodes {
		if node == but || !request.InScope(node.Object) || (best != nil && node.FreeCards() >= best.FreeCards()) {
			continue
		}
		if obstacles, _ := request.Obstacles(node); len(obstacles) == 0 {
			best = node
		}
	}
	return best
}

func refOf(pod *corev1.Pod) Ref {
	request, _ := gpu.RequestOf(pod) // a pod whose request cannot be read is told so elsewhere
	return Ref{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Job: pod.Labels[names.LabelJob], Kind: pod.Labels[names.LabelJobType],
		GPUs: request.Whole + request.Shared,
	}
}

// OnlyFor keeps only those that wait for a pool. Who runs stays: it is in the way of all.
func (f *Facts) OnlyFor(pool string) {
	f.Waiting = slices.DeleteFunc(f.Waiting, func(pod corev1.Pod) bool { return gpu.PodPool(&pod) != pool })
}

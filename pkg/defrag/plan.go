package defrag

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	"g8s.host/gpu-scheduler/pkg/defrag/moves"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Reasons why a pod cannot be helped.
var (
	whyTied    = phrase.Textf("its place depends on more than nodes show: claimed volumes, affinity between pods or a hard spread")
	whyNoNode  = phrase.Textf("no node of its pool and type could hold it, were the node empty")
	whyYoung   = phrase.Textf("only pods are in the way that have run for less than --min-run")
	whyFixed   = phrase.Textf("too much of what is in the way cannot be moved")
	whyNowhere = phrase.Textf("what is in the way has no other place to go, or would take too many moves")
	whyGang    = phrase.Textf("not all pods of its gang can be helped")
)

// Plan finds the fewest moves for each waiting pod, in scheduling order: by priority, then the longest wait. It helps all members of a gang or none.
// [moves.Find] minimizes the moves of each pod; the total need not be minimal, because each pod takes the place it finds.
func Plan(facts *Facts, limits Limits) Advice {
	p := &planner{cluster: newCluster(facts, limits), limits: limits, hopeless: map[likeness]phrase.Text{}}
	advice := Advice{Proposals: []Proposal{}, Unhelped: []Unhelped{}}
	for _, group := range groupWaiting(facts.Waiting) {
		proposals, unhelped := p.planGroup(group)
		advice.Proposals = append(advice.Proposals, proposals...)
		advice.Unhelped = append(advice.Unhelped, unhelped...)
	}
	return advice
}

// groupWaiting returns the waiting pods in queue order, with the members of a gang together.
func groupWaiting(waiting []corev1.Pod) [][]*corev1.Pod {
	byGang := map[string]int{}
	var out [][]*corev1.Pod
	for _, pod := range inQueue(waiting) {
		unit := gang.UnitOf(pod)
		at, ok := byGang[unit]
		if unit == "" || !ok {
			byGang[unit] = len(out)
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

// planner makes proposals, each on the cluster state after those before it.
type planner struct {
	*cluster
	limits Limits
	// hopeless are the pods that cannot be helped, and why. Similar pods are skipped until something moves.
	hopeless map[likeness]phrase.Text
}

// likeness is equal for pods that the same moves help.
type likeness struct {
	class    int
	priority int32
}

// planGroup plans for one pod or one gang.
func (p *planner) planGroup(group []*corev1.Pod) ([]Proposal, []Unhelped) {
	var proposals []Proposal
	var undo []func()
	before := slices.Clone(p.movable)
	for i, pod := range group {
		proposal, back, why := p.planPod(pod)
		if len(why) == 0 {
			proposals, undo = append(proposals, proposal), append(undo, back)
			continue
		}
		for _, back := range slices.Backward(undo) {
			back()
		}
		p.movable = before
		clear(p.hopeless)
		return nil, unhelpedGroup(group, i, why)
	}
	return proposals, nil
}

// unhelpedGroup returns a gang with the reason of one pod. The others wait for it.
func unhelpedGroup(group []*corev1.Pod, first int, why phrase.Text) []Unhelped {
	out := make([]Unhelped, len(group))
	for i, pod := range group {
		says := whyGang
		if i == first {
			says = why
		}
		out[i] = Unhelped{Ref: refOf(pod), Why: says}
	}
	return out
}

// WhyOf returns the reason for several pods of one job: that of the pod that cannot be helped, for which the others of a gang wait.
func WhyOf(pods []Unhelped) phrase.Text {
	for _, pod := range pods {
		if pod.Why.String() != whyGang.String() {
			return pod.Why
		}
	}
	return whyGang
}

// maxTries bounds the time spent on one pod to seconds.
const maxTries = 1 << 16

// planPod finds a place for one pod and takes it. The returned function undoes that. why is empty on success.
func (p *planner) planPod(pod *corev1.Pod) (proposal Proposal, undo func(), why phrase.Text) {
	request, err := p.facts.requestOf(pod)
	switch {
	case err != nil:
		return proposal, nil, phrase.Textf("what it asks cannot be read: %s", err)
	case isTied(pod):
		return proposal, nil, whyTied
	}
	p.registerRequest(request, 0)
	proposal.Ref, proposal.Moves = refOf(pod), []Move{}
	if rooms := p.nodesWithRoom(request, -1); len(rooms) > 0 {
		proposal.Node = p.nodeName(rooms[0])
		return proposal, p.placePod(request, rooms[0]), nil
	}
	alike := likeness{p.known[pod].class, schedulinghelper.PodPriority(pod)}
	if why, known := p.hopeless[alike]; known {
		return proposal, nil, why
	}
	plan, ok := moves.Find(&candidates{p.cluster, request}, request, moves.Limits{Moves: p.limits.Moves, Tries: maxTries})
	if !ok {
		p.hopeless[alike] = p.whyNot(request)
		return proposal, nil, p.hopeless[alike]
	}
	clear(p.hopeless)
	undo = p.applyPlan(&plan, request)
	proposal.Node = p.nodeName(plan.Node)
	for _, move := range plan.Moves {
		proposal.Moves = append(proposal.Moves, Move{Ref: refOf(move.Pod.Pod), From: p.nodeName(move.From), To: p.nodeName(move.To)})
	}
	return proposal, undo, nil
}

// applyPlan applies the moves of a plan and places the pod. Moved pods are not moved again.
func (p *planner) applyPlan(plan *moves.Plan[*fit.Request], request *fit.Request) (undo func()) {
	var done []func()
	for _, move := range plan.Moves {
		p.movable[move.From] = slices.DeleteFunc(slices.Clone(p.movable[move.From]), func(r *fit.Request) bool { return r == move.Pod })
		done = append(done, p.removePod(move.Pod, move.From), p.placePod(move.Pod, move.To))
	}
	done = append(done, p.placePod(request, plan.Node))
	return func() {
		for _, back := range slices.Backward(done) {
			back()
		}
	}
}

func (p *planner) nodeName(node int) string { return p.nodes[node].Object.Name }

func refOf(pod *corev1.Pod) Ref {
	request, _ := gpu.RequestOf(pod) // an unreadable request is reported elsewhere
	return Ref{
		Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Job: gang.WorkloadOf(pod).JobName(), Kind: gang.WorkloadOf(pod).JobKind(),
		GPUs: request.Whole + request.Shared,
	}
}

// OnlyFor keeps only the pods that wait for a pool. Running pods stay, because they occupy nodes for all.
func (f *Facts) OnlyFor(pool string) {
	f.Waiting = slices.DeleteFunc(f.Waiting, func(pod corev1.Pod) bool { return gpu.PodPool(&pod) != pool })
}

package defrag

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/defrag/moves"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Why a pod is not helped.
var (
	whyTied    = phrase.Of("its place depends on more than nodes show: claimed volumes, affinity between pods or a hard spread")
	whyNoNode  = phrase.Of("no node of its pool and type could hold it, were the node empty")
	whyYoung   = phrase.Of("only pods are in the way that have run for less than --min-run")
	whyFixed   = phrase.Of("too much of what is in the way cannot be moved")
	whyNowhere = phrase.Of("what is in the way has no other place to go, or would take too many moves")
	whyGang    = phrase.Of("not all pods of its gang can be helped")
)

// Plan finds the fewest moves for each pod that waits, in the scheduler's order: by priority, then the longest wait.
// A gang is helped whole or not at all. Moves for one pod are the fewest that [moves.Find] finds; for all of them together
// they need not be, as each takes the place it finds.
func Plan(facts *Facts, limits Limits) Advice {
	p := &planner{cluster: newCluster(facts, limits), limits: limits, hopeless: map[likeness]phrase.Text{}}
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

// planner makes proposals, each on the cluster that those before it leave.
type planner struct {
	*cluster
	limits Limits
	// hopeless are those that nothing helped, and why. Others that are alike are not looked at before something moves.
	hopeless map[likeness]phrase.Text
}

// likeness is equal for pods that are helped by the same moves.
type likeness struct {
	kind     int
	priority int32
}

// help plans for one pod or one gang.
func (p *planner) help(group []*corev1.Pod) ([]Proposal, []Unhelped) {
	var proposals []Proposal
	var undo []func()
	before := slices.Clone(p.movable)
	for i, pod := range group {
		proposal, back, why := p.helpOne(pod)
		if len(why) == 0 {
			proposals, undo = append(proposals, proposal), append(undo, back)
			continue
		}
		for _, back := range slices.Backward(undo) {
			back()
		}
		p.movable = before
		clear(p.hopeless)
		return nil, unhelped(group, i, why)
	}
	return proposals, nil
}

// unhelped gives the reason of one pod, which is that of all others of its gang.
func unhelped(group []*corev1.Pod, first int, why phrase.Text) []Unhelped {
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

// WhyOf returns the reason that stands for several pods of one job: that of its pod that cannot be helped, on which the
// others of a gang wait.
func WhyOf(pods []Unhelped) phrase.Text {
	for _, pod := range pods {
		if pod.Why.String() != whyGang.String() {
			return pod.Why
		}
	}
	return whyGang
}

// maxTries bounds the time that is spent on one pod, to seconds.
const maxTries = 1 << 16

// helpOne finds a place for one pod, and takes it. The function it returns undoes that. why is nothing on success.
func (p *planner) helpOne(pod *corev1.Pod) (proposal Proposal, undo func(), why phrase.Text) {
	request, err := p.facts.requestOf(pod)
	switch {
	case err != nil:
		return proposal, nil, phrase.Of("what it asks cannot be read: %s", err)
	case tied(pod):
		return proposal, nil, whyTied
	}
	p.meet(request, 0)
	proposal.Ref, proposal.Moves = refOf(pod), []Move{}
	if rooms := p.rooms(request, -1); len(rooms) > 0 {
		proposal.Node = p.name(rooms[0])
		return proposal, p.put(request, rooms[0]), nil
	}
	alike := likeness{p.known[pod].kind, schedulinghelper.PodPriority(pod)}
	if why, known := p.hopeless[alike]; known {
		return proposal, nil, why
	}
	plan, ok := moves.Find(&candidates{p.cluster, request}, request, moves.Limits{Moves: p.limits.Moves, Tries: maxTries})
	if !ok {
		p.hopeless[alike] = p.whyNot(request)
		return proposal, nil, p.hopeless[alike]
	}
	clear(p.hopeless)
	undo = p.make(&plan, request)
	proposal.Node = p.name(plan.Node)
	for _, move := range plan.Moves {
		proposal.Moves = append(proposal.Moves, Move{Ref: refOf(move.Pod.Pod), From: p.name(move.From), To: p.name(move.To)})
	}
	return proposal, undo, nil
}

// make makes the moves of a plan, and puts the pod in their place. Who has been moved stays where it is then.
func (p *planner) make(plan *moves.Plan[*fit.Request], request *fit.Request) (undo func()) {
	var done []func()
	for _, move := range plan.Moves {
		p.movable[move.From] = slices.DeleteFunc(slices.Clone(p.movable[move.From]), func(r *fit.Request) bool { return r == move.Pod })
		done = append(done, p.take(move.Pod, move.From), p.put(move.Pod, move.To))
	}
	done = append(done, p.put(request, plan.Node))
	return func() {
		for _, back := range slices.Backward(done) {
			back()
		}
	}
}

func (p *planner) name(node int) string { return p.nodes[node].Object.Name }

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

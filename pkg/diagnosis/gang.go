package diagnosis

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// maxMembers is the largest gang whose members are placed one by one. Any user can request a larger one.
const maxMembers = 2048

// creationGrace is the age up to which the pods of a job may still be on their way.
const creationGrace = time.Minute

// explainMissingGroup explains a member of a gang whose PodGroup does not exist.
func explainMissingGroup(f *Facts, pod *corev1.Pod) (Finding, bool) {
	group, named := gang.NamedGroup(pod)
	name := group.Name
	if !named || !f.Space.HasPart(snapshot.PartPodGroups) || slices.Contains(f.Space.PodGroups, name) {
		return Finding{}, false
	}
	return Finding{
		Cause: reason.GangIncomplete, Message: phrase.Textf("the job's pods start together by the PodGroup %s, which does not exist", name),
		Steps: []Step{{Action: reason.CreateAgain, Message: phrase.Textf("complete the job: gpuctl apply with the same file creates the PodGroup again")}},
	}, true
}

// explainIncompleteGang explains a pod that the scheduler refused because members of its gang were missing. It relies on the existing pods, not on the verdict,
// which may be older: if all members exist, it returns false.
func explainIncompleteGang(f *Facts, pod *corev1.Pod, all int) (Finding, bool) {
	there := len(gangMembers(f, pod))
	if there >= all {
		return Finding{}, false
	}
	out := Finding{Cause: reason.GangIncomplete}
	group, named := gang.NamedGroup(pod)
	if named && (f.Job.Kind == KindPod || f.Job.Desired > 0 && all > int(f.Job.Desired)) {
		out.Message = phrase.Textf("the PodGroup %s asks for %d members, and %d are there: no controller is about to create the others", group.Name, all, there)
		out.Steps = []Step{{Action: reason.CreateObject, Kind: reason.KindPod, Message: phrase.Textf("create the other members, by what created these")}, {
			Action: reason.Resubmit, Kind: "PodGroup", Name: group.Name, Field: "spec.minMember", Value: strconv.Itoa(there),
			Message: phrase.Textf("ask for %d in spec.minMember of the PodGroup, if there are to be no more", there),
		}}
		return out, true
	}
	if refused := explainRefusedPods(f); len(refused) > 0 {
		out.Message = phrase.Textf("the job has %d of its %d members, and the others are refused: %s", there, all, refused[0].Cause)
		out.Steps = []Step{waitStep("mend that first: Kubernetes creates the others then")}
		return out, true
	}
	if f.Cluster.Now.Sub(f.Job.Created) < creationGrace {
		out.Message = phrase.Textf("%d of the job's %d members are there, the others are yet to be created", there, all)
		out.Steps = []Step{waitStep("wait a moment: Kubernetes creates the others")}
		return out, true
	}
	out.Message = phrase.Textf("the job has %d of its %d members: the others have ended, or could not be created", there, all)
	out.Steps = []Step{
		inspectStep(phrase.Textf("see what became of the others"), gpuctlCommand("describe job", &f.Job)),
		{Action: reason.Resubmit, Command: gpuctlCommand("delete", &f.Job), Message: phrase.Textf("if it lasts, delete the job and submit it again")},
	}
	return out, true
}

// gangOf returns the gang of a pod by the object that defines it, whether the pod is in one, and whether that object was read.
func gangOf(f *Facts, pod *corev1.Pod) (g gang.Gang, known, read bool) {
	if f.Space == nil {
		return gang.Gang{}, false, false
	}
	for _, source := range gang.SourcesOf(pod) {
		if object := f.Space.Objects[snapshot.ObjectRef{Resource: source.Resource, Namespace: pod.Namespace, Name: source.Name}]; object != nil {
			g, known = source.Read(object)
			return g, known, true
		}
	}
	return gang.Gang{}, false, false
}

// startsTogether reports whether a pod starts together with others, judged by the pod alone where the user may not read the object that says so.
func startsTogether(f *Facts, pod *corev1.Pod) bool {
	if _, named := gang.NamedGroup(pod); named {
		return true
	}
	_, known, read := gangOf(f, pod)
	return known || !read && gang.MayBeMember(pod)
}

// gangMembers returns the pods of a pod's gang that have not ended.
func gangMembers(f *Facts, pod *corev1.Pod) []*corev1.Pod {
	g, known, _ := gangOf(f, pod)
	var out []*corev1.Pod
	for i := range f.Pods {
		member := &f.Pods[i]
		same := gang.KeyOf(member) == gang.KeyOf(pod) && gang.ReplicaOf(member) == gang.ReplicaOf(pod)
		if known {
			same = g.HasMember(member)
		}
		if same && isActive(member) {
			out = append(out, member)
		}
	}
	return out
}

// gangSize is how many members the gang of a pod has, or is to have.
func gangSize(f *Facts, pod *corev1.Pod, members []*corev1.Pod) int {
	if !f.Job.Foreign {
		return max(len(members), int(f.Job.Desired))
	}
	g, _, _ := gangOf(f, pod)
	return max(len(members), g.MinMembers)
}

// explainGang explains a member of a gang: how many members have a place now, and what is missing for the next one. blocked is what blocks the nodes one by
// one. It returns false if all members have a place, or none.
func (s *search) explainGang(pod *corev1.Pod, blocked []Finding) ([]Finding, []NearMiss, bool) {
	members := gangMembers(s.facts, pod)
	if gangSize(s.facts, pod, members) > maxMembers {
		out := verdictFindings(podVerdict(pod), s.facts.Job.Namespace, reason.GangReasons)
		return out, nil, len(out) > 0
	}
	every, waiting := s.groupMembers(members, gangSize(s.facts, pod, members))
	all, placed := countMembers(every), countMembers(every)-countMembers(waiting)
	room, states, on := s.placeMembersOnJudged(waiting, func(j *judgedNode) *fit.Node { return fit.NewNode(j.node, j.holders, &s.topologies) })
	if placed+room >= all {
		return nil, nil, false
	}
	empty, _, _ := s.placeMembersOnJudged(every, func(j *judgedNode) *fit.Node { return fit.NewNode(j.node, nil, &s.topologies) })
	opened, _, _ := s.placeMembersOnJudged(every, func(j *judgedNode) *fit.Node { return fit.NewNode(fit.OpenedNode(j.node), nil, &s.topologies) })
	also := slices.DeleteFunc(withoutRoomNow(blocked), func(f Finding) bool {
		return f.Cause == reason.Busy || f.Cause == reason.Fragmented || f.Cause == reason.RejectedByScheduler
	})
	switch {
	case opened < all:
		return append(singleFinding(s.explainGangTooLarge(all, opened)), also...), nil, true
	case placed+room == 0 && empty >= all:
		return nil, nil, false // what blocks one member blocks all
	}
	misses := s.nearMissesOnStates(states, on)
	waits := s.explainWaitingGang(all, placed+room, misses)
	switch {
	case empty < all && len(misses) > 0: // the nodes that are closed are needed, and more
		return append(also, waits), misses, true
	case empty < all:
		return also, nil, true
	}
	return slices.Concat(singleFinding(waits), s.explainBudgets(), also), misses, true
}

func (s *search) explainWaitingGang(all, room int, misses []NearMiss) Finding {
	out := Finding{Cause: reason.GangWaiting, Nodes: len(s.judged),
		Message: phrase.Textf("there is room for %d of the %d members of the job, which start together or not at all", room, all)}
	out.Steps = append(out.Steps, waitForHolders(misses))
	if room > 0 {
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldNodes, Value: strconv.Itoa(room),
			Message: phrase.Textf("ask for %s in %s, for which there is room now", nodeWord(room), reason.FieldNodes)})
	}
	if _, why := s.preemptionStep(); len(why) > 0 {
		out.Steps[0].Message = out.Steps[0].Message.Addf("; ").Add(why)
	}
	return out
}

func (s *search) explainGangTooLarge(all, empty int) Finding {
	out := Finding{Cause: reason.GangTooLarge, Nodes: len(s.judged),
		Message: phrase.Textf("the nodes that suit the job take %d of its %d members, even when they are empty", empty, all)}
	if empty > 0 {
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldNodes, Value: strconv.Itoa(empty),
			Message: phrase.Textf("ask for at most %s in %s", nodeWord(empty), reason.FieldNodes)})
	}
	if pools := s.poolsForAll(all); len(pools) > 0 {
		out.Steps = append(out.Steps, s.moveToPoolStep(pools[0], phrase.Textf("use a larger pool: %s.", shortList(pools))))
	}
	out.Steps = append(out.Steps, Step{Action: reason.AddNodes, Message: phrase.Textf("ask the administrators for more nodes in %s", s.poolText())})
	return out
}

// placeMembersOnJudged places members on nodes created from the judged ones. It returns the number of placed members, the resulting nodes, and the members on
// each.
func (s *search) placeMembersOnJudged(members []memberGroup, make func(*judgedNode) *fit.Node) (placed int, states []*fit.Node, on []int) {
	for i := range s.judged {
		states = append(states, make(&s.judged[i]))
	}
	placed, on = placeMembers(members, states)
	return placed, states, on
}

// memberGroup is a number of members of a gang that fit on the same nodes.
type memberGroup struct {
	request *fit.Request
	count   int
}

func countMembers(groups []memberGroup) int {
	sum := 0
	for _, group := range groups {
		sum += group.count
	}
	return sum
}

// groupMembers returns the members of a gang of a size that compete for the judged nodes, all of them and those without a place. Members without GPUs,
// such as the head of a RayCluster, find a place elsewhere. Members that do not exist yet are taken to be like the pod of the search.
func (s *search) groupMembers(members []*corev1.Pod, size int) (every, waiting []memberGroup) {
	every, waiting = []memberGroup{{request: s.request}}, []memberGroup{{request: s.request}}
	own, at := s.request.EquivalenceKey(), map[string]int{}
	at[own] = 0
	for _, member := range members {
		request, err := fit.RequestOf(member)
		if err != nil || s.request.Demand.NeedsGPUs() && !request.Demand.NeedsGPUs() || request.Pool != s.request.Pool {
			size--
			continue
		}
		key := request.EquivalenceKey()
		if _, known := at[key]; !known {
			request.Closed = s.request.Closed
			at[key] = len(every)
			every, waiting = append(every, memberGroup{request: request}), append(waiting, memberGroup{request: request})
		}
		every[at[key]].count++
		if member.Spec.NodeName == "" {
			waiting[at[key]].count++
		}
	}
	missing := max(0, size-countMembers(every))
	every[0].count, waiting[0].count = every[0].count+missing, waiting[0].count+missing
	return every, waiting
}

// placeMembers puts members on nodes, and returns how many it placed in total, and on each.
func placeMembers(members []memberGroup, states []*fit.Node) (placed int, on []int) {
	on, left := make([]int, len(states)), slices.Clone(members)
	for i, state := range states {
		for j := range left {
			for left[j].count > 0 && state.PlacePod(memberRequest(left[j].request, placed)) {
				left[j].count--
				placed++
				on[i]++
			}
		}
	}
	return placed, on
}

// memberRequest returns the request of another pod like the given one.
func memberRequest(like *fit.Request, i int) *fit.Request {
	request, pod := *like, *like.Pod // what they share is only read
	pod.Name += "-" + strconv.Itoa(i)
	request.Pod = &pod
	return &request
}

// poolsForAll lists the other pools that could take all members when empty.
func (s *search) poolsForAll(members int) []string {
	if members > maxMembers {
		return nil
	}
	takes := map[string]int{}
	for i := range s.facts.Cluster.Nodes {
		node := &s.facts.Cluster.Nodes[i]
		if !s.isOtherPool(node) || !s.isPoolAllowed(gpu.PoolOf(node)) || !s.neverBlocked(node) {
			continue
		}
		placed, _ := placeMembers([]memberGroup{{s.requestInPoolOfNode(node), members}}, []*fit.Node{fit.NewNode(node, nil, &s.topologies)})
		takes[gpu.PoolOf(node)] += placed
	}
	var out []string
	for name, count := range takes {
		if count >= members {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// nearMissesOnStates returns the nodes that lack the fewest GPUs for one member more than they have room for.
func (s *search) nearMissesOnStates(states []*fit.Node, on []int) []NearMiss {
	var out []NearMiss
	for i, state := range states {
		obstacles, cards := s.request.Obstacles(state)
		if len(obstacles) != 1 || !cards.IsShortage() || on[i] > 0 && len(s.judged[i].holders) == 0 {
			continue // or the members themselves hold what is missing there
		}
		detail := shortageDetail(cards)
		if on[i] > 0 {
			detail = fmt.Sprintf("room for %d of the members, %d short for one more", on[i], cards.MissingGPUs())
		}
		out = append(out, NearMiss{
			NearMiss: explain.NearMiss{Node: s.judged[i].node.Name, Short: cards.MissingGPUs(), Detail: detail},
			Holders:  sumHolders(s.withoutOwnPods(s.judged[i].holders)),
		})
	}
	return nearestMisses(out)
}

func isActive(pod *corev1.Pod) bool {
	return !gpu.HasEnded(pod) && pod.DeletionTimestamp == nil
}

// isStale reports whether a verdict is that members of a gang were missing, so that the verdict on another member is more useful.
func isStale(pod *corev1.Pod) bool {
	_, _, missing := reason.MissingMembers(podVerdict(pod))
	return missing
}

package diagnosis

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

// young is the age up to which the pods of a job may still be on their way.
const young = time.Minute

// gathering explains a pod that the scheduler refused because members of its gang were missing. It believes the pods
// that are there, not the verdict, which may be older than they are: when all are there, it reports false.
func gathering(f *Facts, pod *corev1.Pod, all int) (Finding, bool) {
	there := len(membersOf(f, pod))
	if there >= all {
		return Finding{}, false
	}
	out := Finding{Cause: GangIncomplete}
	if f.Now.Sub(f.Job.Created) < young {
		out.Text = fmt.Sprintf("%d of the job's %d members are there, the others are yet to be created", there, all)
		out.Steps = []Step{waiting("wait a moment: Kubernetes creates the others")}
		return out, true
	}
	out.Text = fmt.Sprintf("the job has %d of its %d members: the others have ended, or could not be created", there, all)
	out.Steps = []Step{
		inspecting("see what became of the others", command("describe job", &f.Job)),
		{Action: Resubmit, Command: command("delete", &f.Job), Text: "if it lasts, delete the job and submit it again"},
	}
	return out, true
}

// membersOf returns the pods of a pod's gang that have not ended.
func membersOf(f *Facts, pod *corev1.Pod) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range f.Pods {
		if member := &f.Pods[i]; member.Labels[names.LabelPodGroup] == pod.Labels[names.LabelPodGroup] && lives(member) {
			out = append(out, member)
		}
	}
	return out
}

// gang explains a pod that starts together with others: how many of them have a place now, and what is missing for the
// next one. It reports false when all of them have.
func (s *search) gang(pod *corev1.Pod) ([]Finding, []NearMiss, bool) {
	members := membersOf(s.facts, pod)
	all := max(len(members), int(s.facts.Job.Desired))
	placed := 0
	for _, member := range members {
		if member.Spec.NodeName != "" {
			placed++
		}
	}
	room, states, on := s.placeable(all-placed, false)
	if placed+room >= all {
		return nil, nil, false
	}
	if empty, _, _ := s.placeable(all, true); empty < all {
		return one(s.gangTooLarge(all, empty)), nil, true
	}
	if placed+room == 0 {
		return nil, nil, false // what stands against one stands against all
	}
	misses := s.missesOn(states, on)
	out := Finding{Cause: GangWaiting, Nodes: len(s.judged),
		Text: fmt.Sprintf("there is room for %d of the %d members of the job, which start together or not at all", placed+room, all)}
	out.Steps = append(out.Steps, wait(misses))
	out.Steps = append(out.Steps, Step{Action: SetField, Field: fieldNodes, Value: strconv.Itoa(placed + room),
		Text: fmt.Sprintf("ask for %s in %s, for which there is room now", nodeWord(placed+room), fieldNodes)})
	if _, why := s.byForce(); why != "" {
		out.Text += "; " + why
	}
	return one(out), misses, true
}

func (s *search) gangTooLarge(all, empty int) Finding {
	out := Finding{Cause: GangTooLarge, Nodes: len(s.judged),
		Text: fmt.Sprintf("the nodes that suit the job take %d of its %d members, even when they are empty", empty, all)}
	if empty > 0 {
		out.Steps = append(out.Steps, Step{Action: SetField, Field: fieldNodes, Value: strconv.Itoa(empty),
			Text: fmt.Sprintf("ask for at most %s in %s", nodeWord(empty), fieldNodes)})
	}
	if pools := s.poolsForAll(all); len(pools) > 0 {
		out.Steps = append(out.Steps, Step{Action: Move, Value: pools[0], Command: s.moveTo(pools[0]),
			Text: fmt.Sprintf("use a larger pool (%s): %s", listOf(shortened(pools)), s.moveTo(pools[0]))})
	}
	out.Steps = append(out.Steps, Step{Action: AddNodes, Text: fmt.Sprintf("ask the administrators for more nodes in %s", s.where())})
	return out
}

// placeable places members on the nodes, as they are or empty, and returns how many it could, the nodes then, and how
// many are on each.
func (s *search) placeable(members int, empty bool) (int, []*fit.Node, []int) {
	states := make([]*fit.Node, len(s.judged))
	for i := range s.judged {
		holders := s.judged[i].holders
		if empty {
			holders = nil
		}
		states[i] = fit.NewNode(s.judged[i].node, holders, &s.topologies)
	}
	placed, on := s.place(members, states)
	return placed, states, on
}

// place puts up to so many members on nodes, and returns how many it did, and how many on each.
func (s *search) place(members int, states []*fit.Node) (placed int, on []int) {
	on = make([]int, len(states))
	for i, state := range states {
		for placed < members && state.Place(s.member(placed)) {
			placed++
			on[i]++
		}
	}
	return placed, on
}

// member is the request of another pod like this one.
func (s *search) member(i int) *fit.Request {
	request := *s.request
	request.Pod = request.Pod.DeepCopy()
	request.Pod.Name += "-" + strconv.Itoa(i)
	return &request
}

// poolsForAll lists the other pools that would take all members when they are empty.
func (s *search) poolsForAll(members int) []string {
	pools := map[string][]*fit.Node{}
	for i := range s.facts.Nodes {
		if node := &s.facts.Nodes[i]; s.isOtherPool(node) && s.neverBlocked(node) {
			name := gpu.PoolOf(node)
			pools[name] = append(pools[name], fit.NewNode(node, nil, &s.topologies))
		}
	}
	var out []string
	for name, states := range pools {
		if placed, _ := s.place(members, states); placed >= members {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// missesOn returns the nodes that lack the fewest cards for one more member than those that they have room for.
func (s *search) missesOn(states []*fit.Node, on []int) []NearMiss {
	var out []NearMiss
	for i, state := range states {
		obstacles, cards := s.request.Obstacles(state)
		if len(obstacles) != 1 || !cards.IsShortage() {
			continue
		}
		detail := detailOf(cards)
		if on[i] > 0 {
			detail = fmt.Sprintf("room for %d of the members, %d short for one more", on[i], cards.Short())
		}
		out = append(out, NearMiss{
			NearMiss: explain.NearMiss{Node: s.judged[i].node.Name, Short: cards.Short(), Detail: detail},
			Holders:  holdersOf(s.judged[i].holders),
		})
	}
	return nearestOf(out)
}

func lives(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && pod.DeletionTimestamp == nil
}

// isStale says whether a verdict is that members of a gang were missing, so that one on another member says more.
func isStale(pod *corev1.Pod) bool {
	_, _, missing := inventory.MissingMembers(verdictOn(pod))
	return missing
}

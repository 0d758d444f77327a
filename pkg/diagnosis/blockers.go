package diagnosis

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// group is one blocker and the nodes that it blocks.
type group struct {
	blocker
	nodes []string
	// alone is the number of nodes that only this group blocks, among those nearest to taking the pod.
	alone int
}

// summarizeBlockers summarizes what blocks the nodes of the pod's pool and type. Blockers of the nodes nearest to taking the pod come first: fixing those is
// enough.
func (s *search) summarizeBlockers(verdict string) []Finding {
	fewest := len(slices.MinFunc(s.judged, func(a, b judgedNode) int { return cmp.Compare(len(a.blockers), len(b.blockers)) }).blockers)
	groups := map[blocker]*group{}
	for i := range s.judged {
		j := &s.judged[i]
		for _, b := range j.blockers {
			if groups[b] == nil {
				groups[b] = &group{blocker: b}
			}
			groups[b].nodes = append(groups[b].nodes, j.node.Name)
			if len(j.blockers) == fewest {
				groups[b].alone++
			}
		}
	}
	out := s.beyondNodes(verdict, fewest)
	for _, g := range sortGroups(groups) {
		out = append(out, s.groupFinding(g))
	}
	return out
}

// beyondNodes returns the reasons that the scheduler gave and that the nodes do not show. If all visible checks pass on a node, such a reason is the
// cause. If no such reason is left, the scheduler has not tried since there is room.
func (s *search) beyondNodes(verdict string, fewest int) []Finding {
	out := s.withAntiAffinityHolders(verdictFindings(verdict, s.facts.Job.Namespace, s.reasonsNotShown()))
	if len(out) > 0 || fewest > 0 {
		return out
	}
	if !isShownByCluster(verdict) {
		return singleFinding(explainRejection(verdict))
	}
	i := slices.IndexFunc(s.judged, func(j judgedNode) bool { return len(j.blockers) == 0 })
	return singleFinding(Finding{
		Cause: reason.RoomNow, Message: phrase.Textf("node %s has room by now, which it had not when the scheduler tried", s.judged[i].node.Name),
		Steps: []Step{waitStep("wait some seconds: the scheduler tries again by itself")},
	})
}

// isShownByCluster reports whether the cluster shows every reason in a verdict.
func isShownByCluster(verdict string) bool {
	if verdict == "" || verdictContains(verdict, reason.RefusalReasons, reason.PlainNodeReasons, reason.ClaimReasons, reason.GangReasons, reason.PodReasons, []*reason.Reason{reason.Reserved}) {
		return true
	}
	_, _, missing := reason.MissingMembers(verdict)
	return missing
}

func sortGroups(groups map[blocker]*group) []*group {
	var out []*group
	for _, g := range groups {
		slices.Sort(g.nodes)
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *group) int {
		return cmp.Or(
			cmp.Compare(min(b.alone, 1), min(a.alone, 1)),
			cmp.Compare(slices.Index(reason.Precedence, a.cause), slices.Index(reason.Precedence, b.cause)),
			cmp.Compare(len(b.nodes), len(a.nodes)),
			cmp.Compare(a.what, b.what))
	})
	return out
}

// groupFinding puts a group in words.
func (s *search) groupFinding(g *group) Finding {
	out := Finding{Cause: g.cause, Nodes: len(g.nodes), Examples: g.nodes[:min(len(g.nodes), maxListed)]}
	switch g.cause {
	case reason.Busy:
		s.describeBusyGPUs(&out)
	case reason.TooManyGPUs, reason.NoGPUs, reason.GPUMemory, reason.UnhealthyGPUs, reason.BadInventory, reason.NotShared:
		s.describeUnsuitableGPUs(&out)
	case reason.CPUShort, reason.MemoryShort, reason.ResourceShort, reason.PodLimit:
		s.describeShortage(&out, g.what)
	default:
		s.describeClosedNodes(&out, g.what)
	}
	return out
}

// describeClosedNodes describes nodes that take no pod like this one, however much is free on them.
func (s *search) describeClosedNodes(out *Finding, what string) {
	count, first := nodeWord(out.Nodes), out.Examples[0]
	switch out.Cause {
	case reason.Cordoned:
		out.Message = phrase.Textf("%s cordoned: the administrators keep new pods away", count)
		out.Steps = append(out.Steps, Step{Action: reason.Uncordon, Kind: "Node", Name: first, Command: "kubectl uncordon " + first,
			Message: phrase.Textf("ask them when the nodes come back: kubectl uncordon %s opens the first", first)})
	case reason.KeptOff:
		s.describeKeptOffNodes(out)
	case reason.AgentAway:
		s.describeAgent(out)
	case reason.ReservedNode:
		s.describeReservation(out, what)
	case reason.NotReady:
		out.States = s.nodeStates(first)
		out.Message = phrase.Textf("%s not ready: the node is down or cut off", count).Add(notReadyRemedy(phrase.Quote(first), out.States))
		out.Steps = append(out.Steps, Step{Action: reason.MendNode, Kind: "Node", Name: first, Command: "kubectl describe node " + first,
			Message: phrase.Textf("tell the administrators: %s", "kubectl describe node "+first)})
	case reason.Tainted:
		out.Message = phrase.Textf("%s with the taint %s, which the job does not tolerate", count, what)
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldTolerations, Value: what,
			Message: phrase.Textf("if the job may run there, tolerate %s in resources.tolerations", what)})
	case reason.NodeSelector:
		s.describeUnselectedNodes(out, count)
		return
	}
	out.Steps = append(out.Steps, s.elsewherePools(true)...)
}

// describeAgent describes nodes whose gpu-agent gives out no GPUs, with what is known of the first.
func (s *search) describeAgent(out *Finding) {
	first := out.Examples[0]
	out.Message = phrase.Textf("%s whose gpu-agent gives out no GPUs", nodeWord(out.Nodes))
	for i := range s.judged {
		if node := s.judged[i].node; node.Name == first {
			out.Message = out.Message.Addf(": on %s %s", first, agentState(node, s.facts.Cluster.Now))
		}
	}
	out.Steps = append(out.Steps,
		waitStep("wait: it starts when the agent is back"),
		Step{Action: reason.MendNode, Kind: "Node", Name: first, Command: "gpuctl describe node " + first,
			Message: phrase.Textf("tell the administrators: %s, and the log of its gpu-agent in namespace kube-system", "gpuctl describe node "+first)})
}

// agentState describes what is wrong with the gpu-agent of a node, and since when.
func agentState(node *corev1.Node, now time.Time) phrase.Text {
	closed := nodestate.AgentClosure(node)
	if closed == nil {
		return phrase.Textf("it does not run: kubelet offers none of the GPUs that it found")
	}
	since := durationText(now.Sub(closed.LastTransitionTime.Time))
	if closed.Reason == names.ReasonPodRejected {
		return phrase.Textf("it does not run since %s: kubelet has rejected a pod", since)
	}
	return phrase.Textf("it says since %s: %s", since, closed.Message)
}

// describeKeptOffNodes describes nodes that one of our controllers closed, with the reason for the first.
func (s *search) describeKeptOffNodes(out *Finding) {
	first := out.Examples[0]
	out.States = s.nodeStates(first)
	out.Message = phrase.Textf("%s that gpu-controller keeps new pods off", nodeWord(out.Nodes))
	advice := Step{Action: reason.MendNode, Kind: "Node", Name: first, Command: "gpuctl describe node " + first,
		Message: phrase.Textf("ask the administrators what is wrong with it: %s", "gpuctl describe node "+first)}
	for _, state := range out.States {
		if !state.ClosesNode() {
			continue
		}
		out.Message = out.Message.Addf(": %s is %s", first, state.Says())
		if state.Code == nodestate.Joining {
			out.Message = phrase.Textf("machine %s is starting", first)
			if others := out.Nodes - 1; others > 0 {
				out.Message = out.Message.Add(countMore(others))
			}
			advice = waitStep("wait: a machine takes pods when it has started and is a node of its pool")
		}
		if state.Until != nil && state.Until.After(s.facts.Cluster.Now) {
			advice = waitStep("wait: %s takes pods again in %s if it stays well", first, durationText(state.Until.Sub(s.facts.Cluster.Now)))
		}
		break
	}
	out.Steps = append(out.Steps, advice)
}

// countMore counts further nodes to which the same applies.
func countMore(count int) phrase.Text {
	if count == 1 {
		return phrase.Textf(", and so is 1 more")
	}
	return phrase.Textf(", and so are %d more", count)
}

// nodeStates is what controllers make of a node.
func (s *search) nodeStates(name string) []nodestate.State {
	node, _ := s.buildInventory().FindNode(name)
	return node.States
}

// notReadyRemedy describes how a node that is not ready recovers, "" if unknown.
func notReadyRemedy(name phrase.Text, states []nodestate.State) phrase.Text {
	for _, state := range states {
		if state.Code == nodestate.OutOfService || state.Code == nodestate.NotTakenForDead {
			return phrase.Textf("; %s is %s", name, state.Says())
		}
	}
	return nil
}

// describeShortage describes shortages of resources other than GPUs.
func (s *search) describeShortage(out *Finding, name string) {
	switch out.Cause {
	case reason.CPUShort:
		s.describeResourceShortage(out, phrase.Textf("CPU"), reason.FieldCPU, corev1.ResourceCPU)
	case reason.MemoryShort:
		s.describeResourceShortage(out, phrase.Textf("memory"), reason.FieldMemory, corev1.ResourceMemory)
	case reason.ResourceShort:
		if !s.isOffered(corev1.ResourceName(name)) {
			s.describeUnofferedResource(out, corev1.ResourceName(name))
			return
		}
		word, field := name, ""
		if profile, ok := strings.CutPrefix(name, names.ResourceMIGPrefix); ok {
			word, field = "MIG "+profile, reason.FieldMIG
		}
		s.describeResourceShortage(out, phrase.Quote(word), field, corev1.ResourceName(name))
	case reason.PodLimit:
		out.Message = phrase.Textf("%s with as many pods as a node takes", nodeWord(out.Nodes))
		out.Steps = append([]Step{s.waitForResource(reason.PodLimit)}, s.elsewherePools(true)...)
	}
}

// describeResourceShortage distinguishes an amount that no node has from one that is in use. It advises an amount that a node with no other shortage has.
func (s *search) describeResourceShortage(out *Finding, word phrase.Text, field string, name corev1.ResourceName) {
	var free, total, enough, largest resource.Quantity
	for i := range s.judged {
		j := &s.judged[i]
		all := j.node.Status.Allocatable[name]
		if all.Cmp(total) > 0 {
			total = all
		}
		if left := j.free(name); j.isBlockedBy(out.Cause) && left.Cmp(free) > 0 {
			free = left
		}
		if len(j.blockers) != 1 || !j.isBlockedBy(out.Cause) {
			continue
		}
		if left := j.free(name); left.Cmp(enough) > 0 {
			enough = left
		}
		if all.Cmp(largest) > 0 {
			largest = all
		}
	}
	asked := s.request.Resources[name]
	out.Message = phrase.Textf("%s with too little %s free: a pod asks for %s, at most %s is free on one", nodeWord(out.Nodes), word, &asked, &free)
	if asked.Cmp(total) <= 0 {
		out.Steps = append(out.Steps, s.waitForResource(out.Cause))
	} else {
		out.Message = out.Message.Addf(", and no node has more than %s", &total)
	}
	if enough.Sign() > 0 && field != "" {
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: field, Value: enough.String(), Message: phrase.Textf("ask for at most %s in %s", &enough, field)})
	}
	out.Steps = append(out.Steps, s.elsewherePools(true)...)
	if len(out.Steps) == 0 {
		out.Steps = []Step{{Action: reason.AddNodes, Message: phrase.Textf("ask the administrators for nodes with more %s, or ask for less", word)}}
	}
}

// waitForResource names the holders on a node with no other shortage.
func (s *search) waitForResource(cause reason.Cause) Step {
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) != 1 || !j.isBlockedBy(cause) {
			continue
		}
		holders := s.holdersOfAny(s.withoutOwnPods(j.holders))
		if len(holders) > 0 {
			return Step{Action: reason.Wait, Holders: holders, Message: phrase.Textf("wait until other pods end; node %s has those of %s", j.node.Name, holderNames(holders))}
		}
	}
	return waitStep("wait until other pods end")
}

// holdersOfAny returns the jobs and pods on a node, whether or not they hold GPUs.
func (s *search) holdersOfAny(pods []*corev1.Pod) []Holder {
	var out []Holder
	for _, pod := range pods {
		holder := podHolder(pod)
		if !slices.Contains(out, holder) {
			out = append(out, holder)
		}
	}
	return out
}

func holderNames(holders []Holder) phrase.Text {
	texts := make([]phrase.Text, 0, len(holders))
	for _, holder := range holders {
		texts = append(texts, holder.displayName())
	}
	return listSome(texts)
}

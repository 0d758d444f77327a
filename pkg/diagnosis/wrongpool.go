package diagnosis

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
	"g8s.host/gpu-scheduler/pkg/spelling"
)

// explainWrongPool explains that the job's pool has no nodes. If the pool that is probably meant, or else every other one, could not take the job either, it
// reports that as well: then moving the job would be refused, and its YAML has to change.
func (s *search) explainWrongPool() []Finding {
	out := singleFinding(s.explainNoSuchPool())
	if len(s.facts.Cluster.Nodes) == 0 {
		return out
	}
	behind, never := s.explainBehindPool(out[0].Steps)
	if !never || s.facts.Job.Kind == KindPod {
		return append(out, behind...)
	}
	for i, step := range out[0].Steps {
		out[0].Steps[i] = Step{Action: reason.SetField, Field: reason.FieldPool, Value: step.Value, Message: phrase.Textf("name a pool that has nodes, in %s", reason.FieldPool)}
		if step.Value != "" {
			out[0].Steps[i].Message = phrase.Textf("did you mean pool %s? Write it in %s", step.Value, reason.FieldPool)
		}
	}
	return append(out, behind...)
}

// explainBehindPool explains what keeps the job from the nodes of the pool that the first step names, or of all pools where no one takes it, and whether
// that is so for ever.
func (s *search) explainBehindPool(steps []Step) (out []Finding, never bool) {
	var meant string
	if len(steps) > 0 {
		meant = strings.TrimPrefix(steps[0].Value, names.LabelPool+"=") // of a pod it is a selector
	}
	nodes := slices.DeleteFunc(slices.Clone(s.facts.Cluster.Nodes), func(node corev1.Node) bool { return meant != "" && gpu.PoolOf(&node) != meant })
	if len(nodes) == 0 || meant == "" && len(s.otherPools(false)) > 0 {
		return nil, false
	}
	request := *s.requestInPoolOfNode(&nodes[0])
	request.Pool = meant
	there := &search{facts: s.facts, request: &request, holders: s.holders}
	if !slices.ContainsFunc(nodes, func(node corev1.Node) bool { return request.Types.MatchesNode(&node) }) {
		return singleFinding(there.explainTypeNotInPool(nodes)), true
	}
	return there.explainMeantNodes(nodes)
}

// explainBehindType explains what keeps the job from the nodes of the type that is probably meant by a misspelt one.
func (s *search) explainBehindType(inPool []corev1.Node, meant string) []Finding {
	pod := s.request.Pod.DeepCopy()
	for _, label := range names.GPUTypeLabels {
		delete(pod.Spec.NodeSelector, label)
	}
	request, err := fit.RequestOf(pod)
	if meant == "" || err != nil || pod.Spec.Affinity != nil {
		return nil
	}
	request.Closed, request.Types = s.request.Closed, gpu.Types{Accepted: []string{meant}}
	there := &search{facts: s.facts, request: request, holders: s.holders}
	out, _ := there.explainMeantNodes(inPool)
	return out
}

// explainMeantNodes explains what keeps the job from nodes that it does not name, but is probably meant for, and whether that is so for ever.
func (s *search) explainMeantNodes(nodes []corev1.Node) (out []Finding, never bool) {
	isOpen := func(j judgedNode) bool { return len(j.blockers) == 0 }
	s.judgeMeantNodes(nodes, nil)
	if _, named := gang.NamedGroup(s.request.Pod); named {
		if out, _, ok := s.explainGang(s.request.Pod, nil); ok && hasCause(out, reason.GangTooLarge) {
			return out, true
		}
	}
	if !slices.ContainsFunc(s.judged, isOpen) {
		return s.summarizeBlockers(""), true
	}
	if s.judgeMeantNodes(nodes, s.holders); !slices.ContainsFunc(s.judged, isOpen) {
		return s.summarizeBlockers(""), false
	}
	return nil, false
}

// judgeMeantNodes judges the nodes of a type that the pod accepts with these pods on them.
func (s *search) judgeMeantNodes(nodes []corev1.Node, holders map[string][]*corev1.Pod) {
	s.judged = nil
	for i := range nodes {
		if node := &nodes[i]; s.request.Types.MatchesNode(node) {
			s.judged = append(s.judged, s.judgeNode(node, holders[node.Name]))
		}
	}
}

func (s *search) explainNoSuchPool() Finding {
	pools := s.buildInventory().Pools
	var known []string
	var free []phrase.Text
	for _, pool := range pools {
		if s.isPoolAllowed(pool.Name) { // a move into another one would be refused
			known = append(known, pool.Name)
			free = append(free, phrase.Textf("%s (%d of %d GPUs free)", pool.Name, pool.GPUs.Free, pool.GPUs.Allocatable))
		}
	}
	out := Finding{Cause: reason.NoSuchPool, Message: phrase.Textf("no node is in %s", s.poolText())}
	if len(pools) == 0 {
		out.Message = phrase.Textf("the cluster has no nodes")
		out.Steps = []Step{{Action: reason.AddNodes, Message: phrase.Textf("have the administrators add nodes")}}
		return out
	}
	offers := s.otherPools(false)
	near := spelling.Nearest(s.request.Pool, known)
	takes := len(offers) == 0 || slices.ContainsFunc(offers, func(o offer) bool { return o.pool == near })
	if near != "" && takes { // else it could never run there, and can elsewhere
		out.Steps = append(out.Steps, s.moveToPoolStep(near, phrase.Textf("did you mean pool %s?", near)))
	}
	able := slices.DeleteFunc(offers, func(o offer) bool { // which has been named
		return len(out.Steps) > 0 && o.pool == out.Steps[0].Value
	})
	switch {
	case len(able) > 0:
		best := able[0].pool
		out.Steps = append(out.Steps, s.moveToPoolStep(best, phrase.Textf("name a pool that has nodes for it: %s.", listSome(offerTexts(able)))))
	case len(out.Steps) == 0 && len(free) == 0:
		out.Steps = append(out.Steps, Step{Action: reason.AskAdministrators, Message: phrase.Textf("ask the administrators to let the namespace into a pool: each has rules that keep the job out")})
	case len(out.Steps) == 0:
		out.Steps = append(out.Steps, s.moveToPoolStep("", phrase.Textf("name a pool that has nodes: %s.", listSome(free))))
	}
	return out
}

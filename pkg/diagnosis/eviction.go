package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/reason"
)

type priorityClass = schedulingv1.PriorityClass

// preempting explains a pod for which others were told to leave a node, and are still on it.
func (s *search) preempting() (Finding, bool) {
	name := s.request.Pod.Status.NominatedNodeName
	if name == "" {
		return Finding{}, false
	}
	var going []*corev1.Pod
	for _, pod := range s.holders[name] {
		if pod.DeletionTimestamp != nil {
			going = append(going, pod)
		}
	}
	if len(going) == 0 {
		return Finding{}, false
	}
	last := slices.MaxFunc(going, func(a, b *corev1.Pod) int { return a.DeletionTimestamp.Compare(b.DeletionTimestamp.Time) })
	left := "they have had their time to end, so the node is slow or lost"
	if rest := last.DeletionTimestamp.Sub(s.facts.Cluster.Now); rest > 0 {
		left = fmt.Sprintf("they have at most %s left to end", span(rest))
	}
	pods, them := "1 pod", "it leaves"
	if len(going) > 1 {
		pods, them = fmt.Sprintf("%d pods", len(going)), "they leave"
	}
	holders := holdersOf(going)
	for i := range holders {
		holders[i].Ending = false // as all of them
	}
	return Finding{
		Cause: reason.Preempting, Nodes: 1, Examples: []string{name},
		Text: fmt.Sprintf("waits for %s to leave %s, which were told so for this job: %s; %s", pods, name, holdersText(holders), left),
		Steps: []Step{{Action: reason.Wait, Holders: holders,
			Text: fmt.Sprintf("wait: the job starts on %s as soon as %s", name, them)}},
	}, true
}

// mayEvict reports whether the scheduler may stop other pods for this one.
func (s *search) mayEvict() bool {
	pod := s.request.Pod
	return pod.Labels[names.LabelPodGroup] == "" &&
		(pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever)
}

// victims finds the node on which the fewest GPUs would have to be taken from pods below a priority to make room.
func (s *search) victims(priority int32) (node string, victims []Holder, ok bool) {
	fewest := int64(-1)
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) == 0 || slices.ContainsFunc(j.blockers, func(b blocker) bool { return !heals(b.cause) }) {
			continue
		}
		gone, enough := s.evictFrom(j, priority)
		if !enough {
			continue
		}
		holders := holdersOf(gone)
		var held int64
		for _, holder := range holders {
			held += holder.GPUs
		}
		if fewest < 0 || held < fewest {
			node, victims, fewest = j.node.Name, holders, held
		}
	}
	return node, victims, fewest >= 0
}

// heals reports whether pods that leave a node can undo a cause.
func heals(cause reason.Cause) bool {
	return slices.Contains([]reason.Cause{reason.Busy, reason.CPUShort, reason.MemoryShort, reason.ResourceShort, reason.PodLimit}, cause)
}

// evictFrom takes pods below a priority off a node, the lowest first, until the pod fits.
func (s *search) evictFrom(j *judged, priority int32) (gone []*corev1.Pod, enough bool) {
	lower := slices.DeleteFunc(slices.Clone(j.holders), func(pod *corev1.Pod) bool { return corehelpers.PodPriority(pod) >= priority })
	slices.SortStableFunc(lower, func(a, b *corev1.Pod) int { return cmp.Compare(corehelpers.PodPriority(a), corehelpers.PodPriority(b)) })
	state := fit.NewNode(j.node, j.holders, &s.topologies)
	for _, pod := range lower {
		state.Remove(pod)
		gone = append(gone, pod)
		if obstacles, _ := s.request.Obstacles(state); len(obstacles) == 0 {
			return gone, true
		}
	}
	return nil, false
}

// byForce says whether other pods could be stopped for this one: by itself, at priority high, or not at all, and then
// why not.
func (s *search) byForce() (step *Step, sentence string) {
	pod := s.request.Pod
	own := corehelpers.PodPriority(pod)
	switch {
	case pod.Labels[names.LabelPodGroup] != "":
		return nil, "a job on several nodes stops no others, whatever its priority"
	case pod.Spec.Priority == nil:
		return nil, "" // its class may not be read
	}
	if s.mayEvict() {
		if node, victims, ok := s.victims(own); ok {
			return &Step{Action: reason.Wait, Text: fmt.Sprintf("wait some seconds: the scheduler may stop others of lower priority on node %s for it: %s",
				node, holdersText(victims))}, ""
		}
		return nil, "nobody of lower priority holds enough there, so the job can stop nobody"
	}
	high := slices.IndexFunc(s.facts.priorityClasses(), func(c priorityClass) bool { return c.Name == names.PriorityClassHigh })
	if high < 0 {
		return nil, ""
	}
	node, victims, ok := s.victims(s.facts.priorityClasses()[high].Value)
	if !ok {
		return nil, "nobody there has a priority below high, so the job can stop nobody"
	}
	command := fmt.Sprintf("gpuctl set priority %s high -n %s", s.facts.Job.Name, s.facts.Job.Namespace)
	return &Step{Action: reason.SetPriority, Value: "high", Command: command, Text: fmt.Sprintf(
		"give it priority high, which would stop others on node %s (%s): %s; at its own priority it stops nobody", node, holdersText(victims), command)}, ""
}

func holdersText(holders []Holder) string {
	texts := make([]string, 0, len(holders))
	for _, holder := range holders {
		texts = append(texts, holder.String())
	}
	return strings.Join(shortened(texts), "; ")
}

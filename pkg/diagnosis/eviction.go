package diagnosis

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	corehelpers "k8s.io/component-helpers/scheduling/corev1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/minruntime"
	"g8s.host/gpu-scheduler/pkg/phrase"
	quotas "g8s.host/gpu-scheduler/pkg/quota"
	"g8s.host/gpu-scheduler/pkg/reason"
)

type priorityClass = schedulingv1.PriorityClass

// explainPreemption explains a pod whose victims on a node are still terminating.
func (s *search) explainPreemption() (Finding, bool) {
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
	left := phrase.Textf("they have had their time to end, so the node is slow or lost")
	if rest := last.DeletionTimestamp.Sub(s.facts.Cluster.Now); rest > 0 {
		left = phrase.Textf("they have at most %s left to end", durationText(rest))
	}
	pods, start := phrase.Textf("1 pod"), phrase.Textf("wait: the job starts on %s as soon as it leaves", name)
	if len(going) > 1 {
		pods, start = phrase.Textf("%d pods", len(going)), phrase.Textf("wait: the job starts on %s as soon as they leave", name)
	}
	holders := sumHolders(going)
	for i := range holders {
		holders[i].Ending = false // as all of them
	}
	return Finding{
		Cause: reason.Preempting, Nodes: 1, Examples: []string{name},
		Message: phrase.Textf("waits for %s to leave %s, which were told so for this job: %s; %s", pods, name, holdersText(holders), left),
		Steps:   []Step{{Action: reason.Wait, Holders: holders, Message: start}},
	}, true
}

// mayEvict reports whether the scheduler may evict other pods for this one.
func (s *search) mayEvict() bool {
	pod := s.request.Pod
	return !startsTogether(s.facts, pod) &&
		(pod.Spec.PreemptionPolicy == nil || *pod.Spec.PreemptionPolicy != corev1.PreemptNever)
}

// findVictims finds the node on which eviction of pods below a priority frees enough with the fewest GPUs.
func (s *search) findVictims(priority int32) (node string, victims []Holder, ok bool) {
	fewest := int64(-1)
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) == 0 || slices.ContainsFunc(j.blockers, func(b blocker) bool { return !isCuredByEviction(b.cause) }) {
			continue
		}
		gone, enough := s.simulateEviction(j, priority)
		if !enough {
			continue
		}
		holders := sumHolders(gone)
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

// isCuredByEviction reports whether an eviction can resolve a cause.
func isCuredByEviction(cause reason.Cause) bool {
	return slices.Contains([]reason.Cause{reason.Busy, reason.CPUShort, reason.MemoryShort, reason.ResourceShort, reason.PodLimit}, cause)
}

// simulateEviction removes pods below a priority from a node, the lowest first, until the pod fits.
func (s *search) simulateEviction(j *judgedNode, priority int32) (gone []*corev1.Pod, enough bool) {
	pool := s.minRuntimes(gpu.PoolOf(j.node))
	lower := slices.DeleteFunc(s.withoutOwnPods(j.holders), func(pod *corev1.Pod) bool {
		return corehelpers.PodPriority(pod) >= priority || s.isWithinMinRuntime(pod, pool, priority)
	})
	slices.SortStableFunc(lower, func(a, b *corev1.Pod) int { return cmp.Compare(corehelpers.PodPriority(a), corehelpers.PodPriority(b)) })
	state := fit.NewNode(j.node, j.holders, &s.topologies)
	for _, pod := range lower {
		state.RemovePod(pod)
		gone = append(gone, pod)
		if obstacles, _ := s.request.Obstacles(state); len(obstacles) == 0 {
			return gone, true
		}
	}
	return nil, false
}

// minRuntimes are those of a pool.
func (s *search) minRuntimes(pool string) names.MinRuntimes {
	for i := range s.facts.Cluster.GPUPools {
		if declared := &s.facts.Cluster.GPUPools[i]; declared.Name == pool {
			return declared.Spec.Defaults.MinRuntimes()
		}
	}
	return (&names.PoolDefaults{}).MinRuntimes()
}

// isWithinMinRuntime reports whether a pod is still protected by its min-runtime from a preemptor of a priority. It records the earliest end of such a
// protection.
func (s *search) isWithinMinRuntime(pod *corev1.Pod, pool names.MinRuntimes, priority int32) bool {
	until := minruntime.ProtectedUntil(pod, pool)
	if !minruntime.AppliesTo(priority) || !until.After(s.facts.Cluster.Now) {
		return false
	}
	if s.protectedUntil.IsZero() || until.Before(s.protectedUntil) {
		s.protectedUntil = until
	}
	return true
}

// preemptionStep describes whether the pod could preempt others: as it is, at priority high, or not at all and why not.
func (s *search) preemptionStep() (step *Step, sentence phrase.Text) {
	pod := s.request.Pod
	own := corehelpers.PodPriority(pod)
	switch {
	case startsTogether(s.facts, pod):
		return nil, phrase.Textf("a job on several nodes stops others, of lower priority, only if all of it starts then")
	case pod.Spec.Priority == nil:
		return nil, nil // its class may not be read
	}
	if s.mayEvict() {
		if node, victims, ok := s.findVictims(own); ok {
			return &Step{Action: reason.Wait, Message: phrase.Textf("wait some seconds: the scheduler may stop others of lower priority on node %s for it: %s",
				node, holdersText(victims))}, nil
		}
		return nil, s.noVictimsText(phrase.Textf("nobody of lower priority holds enough there, so the job can stop nobody"))
	}
	high := slices.IndexFunc(s.facts.priorityClasses(), func(c priorityClass) bool { return c.Name == names.PriorityClassHigh })
	if high < 0 || s.facts.holdsNodes() {
		return nil, nil // a job with running pods would start over
	}
	above := s.facts.priorityClasses()[high].Value
	node, victims, ok := s.findVictims(above)
	switch {
	case ok && !s.facts.mayHavePriority(pod, names.PriorityClassHigh):
		return nil, nil // its pool, or a quota, would refuse it then
	case !ok && s.hasHoldersBelow(above):
		return nil, s.noVictimsText(phrase.Textf("those of a priority below high hold too little there, so the job can stop nobody"))
	case !ok:
		return nil, s.noVictimsText(phrase.Textf("nobody there has a priority below high, so the job can stop nobody"))
	}
	command := fmt.Sprintf("gpuctl set priority %s high -n %s", s.facts.Job.Name, s.facts.Job.Namespace)
	return &Step{Action: reason.SetPriority, Value: "high", Command: command, Message: phrase.Textf(
		"give it priority high, which would stop others on node %s (%s): %s; at its own priority it stops nobody", node, holdersText(victims), command)}, nil
}

// hasHoldersBelow reports whether a pod of another job that holds GPUs on the nodes in question has a lower priority.
func (s *search) hasHoldersBelow(priority int32) bool {
	for i := range s.judged {
		below := slices.DeleteFunc(s.withoutOwnPods(s.judged[i].holders), func(pod *corev1.Pod) bool { return corehelpers.PodPriority(pod) >= priority })
		if len(sumHolders(below)) > 0 {
			return true
		}
	}
	return false
}

// mayHavePriority reports whether the job's pool takes a priority class, and no quota of the namespace for that class is in the way of a pod.
func (f *Facts) mayHavePriority(pod *corev1.Pod, class string) bool {
	if len(PoolDenial(f.Cluster.GPUPools, gpu.PodPool(pod), f.Job.Namespace, class)) > 0 {
		return false
	}
	classed := pod.DeepCopy()
	classed.Spec.PriorityClassName = class
	ofClass := slices.DeleteFunc(slices.Clone(f.Space.Quotas), func(quota corev1.ResourceQuota) bool { return scopedClass(&quota, classed) == "" })
	return len(quotas.FindExcess(ofClass, classed, 1)) == 0
}

// noVictimsText explains that victims are protected, or returns the given reason why there are none.
func (s *search) noVictimsText(nobody phrase.Text) phrase.Text {
	if s.protectedUntil.IsZero() {
		return nobody
	}
	return phrase.Textf("pods of lower priority there may not be stopped before they have run for their min-runtime, the first of them for %s more",
		durationText(s.protectedUntil.Sub(s.facts.Cluster.Now)))
}

func holdersText(holders []Holder) phrase.Text {
	texts := make([]phrase.Text, 0, len(holders))
	for _, holder := range holders {
		texts = append(texts, holder.describeHolding())
	}
	return phrase.Join(shortenList(texts), phrase.Textf("; "))
}

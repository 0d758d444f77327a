package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// describeBusyGPUs distinguishes GPUs that are all in use from GPUs that are free but not together.
func (s *search) describeBusyGPUs(out *Finding) {
	var free, total, most, asked int64
	var reserved gpu.Reason
	for i := range s.judged {
		if !s.judged[i].isBlockedBy(reason.Busy) {
			continue
		}
		cards := s.judged[i].gpuReason
		if cards.Reserved {
			reserved = cards
		}
		free, total, asked = free+cards.Usable, total+cards.Total, max(asked, cards.Asked)
		most = max(most, cards.Usable)
	}
	if free >= asked && most < asked {
		out.Cause = reason.Fragmented
		out.Message = phrase.Textf("%d GPUs are free on %s, but at most %d on one; a pod asks for %d on one node",
			free, nodeWord(out.Nodes), most, asked)
	} else {
		out.Message = phrase.Textf("%d of %d GPUs are free on %s; a pod asks for %d", free, total, nodeWord(out.Nodes), asked)
	}
	if s.request.Demand.Shared > 0 && s.request.Demand.ShareMiB > 0 {
		out.Message = out.Message.Addf(", with %d MiB on each", s.request.Demand.ShareMiB)
	}
	if reserved.Reserved {
		out.Message = out.Message.Addf("; the driver keeps a part of each GPU, so that shares can hold %d of %d MiB", reserved.ShareableMiB, reserved.LargestMiB)
	}
	own := s.ownGPUs(reason.Busy)
	if own > 0 && s.waitsForItself() {
		s.describeSelfWait(out, own)
		return
	}
	if own > 0 {
		out.Message = out.Message.Addf("; other pods of this job hold %d there", own)
	}
	out.Steps = append(out.Steps, waitForHolders(s.nearMisses()))
	if count, node := s.fewerFittingGPUs(); count > 0 {
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldGPU, Value: strconv.FormatInt(count, 10),
			Message: phrase.Textf("ask for at most %s per pod in %s, which node %s has now", gpuWord(count), reason.FieldGPU, node)})
	}
	step, why := s.preemptionStep()
	if step != nil {
		out.Steps = append(out.Steps, *step)
	}
	if len(why) > 0 {
		out.Steps[0].Message = out.Steps[0].Message.Addf("; ").Add(why)
	}
	out.Steps = append(out.Steps, s.elsewherePools(true)...)
	if out.Cause == reason.Fragmented {
		out.Steps = append(out.Steps, inspectStep(phrase.Textf("or see which moves of other jobs would make room"), "gpuctl advise defrag"))
	}
}

// fewerFittingGPUs is the largest number of GPUs below the pod's request with which a node would take it now; 0 if there is none.
func (s *search) fewerFittingGPUs() (count int64, node string) {
	if s.facts.Job.Desired > 1 || len(s.request.Pod.Spec.Containers) != 1 {
		return 0, ""
	}
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) != 1 {
			continue
		}
		for asks := min(j.gpuReason.Usable, j.gpuReason.Asked-1); asks > count; asks-- {
			if s.fitsWith(j, asks) {
				count, node = asks, j.node.Name
			}
		}
	}
	return count, node
}

// fitsWith reports whether a node would take the pod now with that number of GPUs.
func (s *search) fitsWith(j *judgedNode, gpus int64) bool {
	request, err := fit.RequestOf(withGPUs(s.request.Pod, gpus))
	if err != nil {
		return false
	}
	obstacles, _ := request.Obstacles(fit.NewNode(j.node, j.holders, &s.topologies))
	return len(obstacles) == 0
}

// withGPUs returns a copy of a pod with another number of GPUs of the same kind.
func withGPUs(pod *corev1.Pod, gpus int64) *corev1.Pod {
	out := pod.DeepCopy()
	resources := &out.Spec.Containers[0].Resources
	for _, list := range []corev1.ResourceList{resources.Requests, resources.Limits} {
		for _, name := range []corev1.ResourceName{names.ResourceGPU, names.ResourceSharedGPU} {
			if _, ok := list[name]; ok {
				list[name] = *resource.NewQuantity(gpus, resource.DecimalSI)
			}
		}
	}
	return out
}

// waitForHolders describes what the job waits for: the end of the pods that hold what the nearest node lacks.
func waitForHolders(misses []NearMiss) Step {
	if len(misses) == 0 {
		return waitStep("wait until other jobs end")
	}
	near := misses[0]
	says := phrase.Textf("wait: node %s is %s short", near.Node, gpuWord(near.Short))
	var enough []Holder
	for held, i := int64(0), 0; held < near.Short && i < len(near.Holders); i++ {
		enough = append(enough, near.Holders[i])
		held += near.Holders[i].GPUs
	}
	if len(enough) > 0 {
		says = says.Addf("; %s there", holdersText(enough))
	}
	return Step{Action: reason.Wait, Kind: "Node", Name: near.Node, Holders: enough, Message: says}
}

// describeHolding describes a holder and its number of GPUs.
func (h Holder) describeHolding() phrase.Text {
	out := phrase.Textf("%s holds %d", h.displayName(), h.GPUs)
	var more []phrase.Text
	if h.Priority != "" {
		more = append(more, phrase.Textf("priority %s", h.Priority))
	}
	if h.Ending {
		more = append(more, phrase.Textf("ending"))
	}
	if len(more) > 0 {
		out = out.Addf(" (%s)", phrase.Join(more, phrase.Textf(", ")))
	}
	return out
}

func (h Holder) displayName() phrase.Text {
	if h.Job != "" {
		return phrase.Textf("job %s of namespace %s", h.Job, h.Namespace)
	}
	return phrase.Textf("pod %s of namespace %s", h.Pod, h.Namespace)
}

// describeUnsuitableGPUs describes nodes whose GPUs cannot serve the pod even when all of them are free.
func (s *search) describeUnsuitableGPUs(out *Finding) {
	var best gpu.Reason
	for i := range s.judged {
		if s.judged[i].isBlockedBy(out.Cause) && (best.Code == gpu.Fits || s.judged[i].gpuReason.Usable > best.Usable) {
			best = s.judged[i].gpuReason
		}
	}
	count, first := nodeWord(out.Nodes), out.Examples[0]
	switch out.Cause {
	case reason.TooManyGPUs:
		most := best.Total
		out.Message = phrase.Textf("%s with %d GPUs at most; a pod asks for %d on one node", count, most, best.Asked)
		switch best.Code {
		case gpu.TooFewOfType:
			most = best.Usable
			out.Message = phrase.Textf("%s with several GPU models: %s", count, phrase.FromEnglish(best.Detail()))
		case gpu.OnlySlots:
			most = best.Usable
			out.Message = phrase.Textf("%s with parts of GPUs (%s), of which a pod gets one; a pod asks for %d", count, best.Sharing, best.Asked)
		}
		out.Steps = append(s.askFewerSteps(most), s.elsewherePools(false)...)
	case reason.NoGPUs:
		out.Message = phrase.Textf("%s without GPUs", count)
		out.Steps = append(s.elsewherePools(false), Step{Action: reason.MendNode, Kind: "Node", Name: first,
			Message: phrase.Textf("if they should have some, the device plugin is down: tell the administrators")})
	case reason.NotShared:
		s.describeSharingMismatch(out, count)
	case reason.GPUMemory:
		out.Message = phrase.Textf("%s whose GPUs have too little memory: %s", count, phrase.FromEnglish(best.Detail()))
		out.Steps = append(s.askLessMemorySteps(best), s.elsewherePools(false)...)
	case reason.BadInventory:
		out.Message = phrase.Textf("%s whose annotation %s cannot be read, so that its labels are believed: %s", count, names.AnnotationInventory, phrase.FromEnglish(best.Detail()))
		out.Steps = append([]Step{{Action: reason.CorrectNode, Kind: "Node", Name: first, Field: names.AnnotationInventory,
			Message: phrase.Textf("tell the administrators: the annotation %s of node %s is malformed; its agent has to write it again", names.AnnotationInventory, first)}},
			s.elsewherePools(false)...)
	case reason.UnhealthyGPUs:
		out.Message = phrase.Textf("%s with too few healthy GPUs: %s", count, phrase.FromEnglish(best.Detail()))
		out.Steps = append(s.askHealthySteps(best), Step{Action: reason.MendGPUs, Kind: "Node", Name: first, Command: "gpuctl describe node " + first,
			Message: phrase.Textf("tell the administrators that cards need mending: %s", "gpuctl describe node "+first)})
		out.Steps = append(out.Steps, s.elsewherePools(false)...)
	}
	if len(out.Steps) == 0 {
		out.Steps = []Step{{Action: reason.AddNodes, Message: phrase.Textf("ask the administrators: no pool has nodes that could take the job, and %s would need other ones", s.poolText())}}
	}
}

// askFewerSteps advises a request for fewer GPUs, if a node would then take the pod, at least when it is empty.
func (s *search) askFewerSteps(gpus int64) []Step {
	if gpus <= 0 || len(s.request.Pod.Spec.Containers) != 1 {
		return nil
	}
	request, err := fit.RequestOf(withGPUs(s.request.Pod, gpus))
	if err != nil {
		return nil
	}
	for i := range s.judged {
		if obstacles, _ := request.Obstacles(fit.NewNode(s.judged[i].node, nil, &s.topologies)); len(obstacles) == 0 {
			return []Step{{Action: reason.SetField, Field: reason.FieldGPU, Value: strconv.FormatInt(gpus, 10), Message: phrase.Textf(
				"ask for at most %s per pod in %s; a training job that needs more runs on several nodes with %s", gpuWord(gpus), reason.FieldGPU, reason.FieldNodes)}}
		}
	}
	return nil
}

// askHealthySteps advises a request no larger than the number of healthy GPUs.
func (s *search) askHealthySteps(best gpu.Reason) []Step {
	switch {
	case best.Profile == "":
		return s.askFewerSteps(best.Usable)
	case best.Usable == 0 || len(s.request.Demand.Profiles) != 1:
		return nil
	}
	value := strconv.FormatInt(best.Usable, 10)
	return []Step{{Action: reason.SetField, Field: reason.FieldMIG, Value: value, Message: phrase.Textf("ask for at most %s in %s", value, reason.FieldMIG)}}
}

// askLessMemorySteps advises a request for as much GPU memory as enough GPUs have.
func (s *search) askLessMemorySteps(best gpu.Reason) []Step {
	if best.LargestMiB <= 0 || best.Asked > best.Total {
		return nil
	}
	shareable := cmp.Or(best.ShareableMiB, best.LargestMiB)
	value := fmt.Sprintf("%dMi", shareable)
	pod := s.request.Pod.DeepCopy()
	step := Step{Action: reason.SetField, Field: reason.FieldShare, Value: value, Message: phrase.Textf("ask for at most %d MiB on each GPU: %s in %s", shareable, value, reason.FieldShare)}
	if s.request.Demand.MemoryMinMiB > best.LargestMiB {
		value = fmt.Sprintf("%dMi", best.LargestMiB)
		pod.Annotations[names.AnnotationGPUMemoryMin] = value
		step.Action, step.Field, step.Command = reason.Resubmit, names.AnnotationGPUMemoryMin, gpuctlCommand("delete", &s.facts.Job)
		step.Message = phrase.Textf("ask for at most %d MiB on each GPU, in the annotation %s: delete the job, and submit it again", best.LargestMiB, names.AnnotationGPUMemoryMin)
	} else {
		pod.Annotations[names.AnnotationGPUShare] = value
	}
	request, err := fit.RequestOf(pod)
	if err != nil {
		return nil
	}
	for i := range s.judged {
		if obstacles, _ := request.Obstacles(fit.NewNode(s.judged[i].node, nil, &s.topologies)); len(obstacles) == 0 {
			return []Step{step}
		}
	}
	return nil
}

// describeSharingMismatch describes a pod that requests shares of GPUs on nodes with whole ones, or the reverse.
func (s *search) describeSharingMismatch(out *Finding, count phrase.Text) {
	if s.request.Demand.Shared > 0 {
		out.Message = phrase.Textf("%s whose GPUs are not shared; the pod asks for a share of one", count)
		out.Steps = append(out.Steps, Step{Action: reason.CreateAgain, Command: gpuctlCommand("delete", &s.facts.Job),
			Message: phrase.Textf("delete the job and create it again from its file: in this pool it gets whole GPUs then")})
	} else {
		out.Message = phrase.Textf("%s whose GPUs are shared by memory; the pod asks for whole ones", count)
		out.Steps = append(out.Steps, Step{Action: reason.SetField, Field: reason.FieldShare, Message: phrase.Textf("say in resources.gpu-share how much memory of a GPU the job needs")})
	}
	out.Steps = append(out.Steps, s.elsewherePools(false)...)
}

// nearMisses returns the nodes that only lack free GPUs, those that lack the fewest first.
func (s *search) nearMisses() []NearMiss {
	var out []NearMiss
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) != 1 || !j.gpuReason.IsShortage() {
			continue
		}
		out = append(out, NearMiss{
			NearMiss: explain.NearMiss{Node: j.node.Name, Short: j.gpuReason.MissingGPUs(), Detail: shortageDetail(j.gpuReason)},
			Holders:  sumHolders(s.withoutOwnPods(j.holders)),
		})
	}
	return nearestMisses(out)
}

// shortageDetail describes a shortage in numbers. It omits GPUs that pods hold without naming them, since the user can do nothing about those.
func shortageDetail(cards gpu.Reason) string {
	cards.Unknown = 0
	return cards.Detail()
}

// nearestMisses sorts near misses and keeps the nearest.
func nearestMisses(misses []NearMiss) []NearMiss {
	slices.SortFunc(misses, func(a, b NearMiss) int {
		return cmp.Or(cmp.Compare(a.Short, b.Short), cmp.Compare(a.Node, b.Node))
	})
	return misses[:min(len(misses), explain.MaxNearMisses)]
}

// podHolder identifies the job that owns a pod.
func podHolder(pod *corev1.Pod) Holder {
	out := Holder{Namespace: pod.Namespace, Job: gang.WorkloadOf(pod).JobName(), Ending: pod.DeletionTimestamp != nil,
		Priority: strings.TrimPrefix(pod.Spec.PriorityClassName, "g8s-")}
	if out.Job == "" {
		out.Pod = pod.Name
	}
	return out
}

// sumHolders sums up by job what the pods of a node hold, the largest first.
func sumHolders(pods []*corev1.Pod) []Holder {
	held := map[Holder]int64{}
	for _, pod := range pods {
		request, err := gpu.RequestOf(pod)
		if count := request.Whole + request.Shared; err == nil && count > 0 {
			held[podHolder(pod)] += count
		}
	}
	out := make([]Holder, 0, len(held))
	for holder, count := range held {
		holder.GPUs = count
		out = append(out, holder)
	}
	slices.SortFunc(out, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Pod, b.Pod))
	})
	return out
}

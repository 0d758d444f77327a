package diagnosis

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// busy tells GPUs that are all in use from GPUs that are free, but not together.
func (s *search) busy(out *Finding) {
	var free, total, most, asked int64
	var on string
	for i := range s.judged {
		if !s.judged[i].has(Busy) {
			continue
		}
		cards := s.judged[i].cards
		free, total, asked = free+cards.Usable, total+cards.Total, max(asked, cards.Asked)
		if cards.Usable > most {
			most, on = cards.Usable, s.judged[i].node.Name
		}
	}
	misses := s.nearMisses()
	if free >= asked && most < asked {
		out.Cause = Fragmented
		out.Text = fmt.Sprintf("%d GPUs are free on %s, but at most %d on one; a pod asks for %d on one node",
			free, nodeWord(out.Nodes), most, asked)
	} else {
		out.Text = fmt.Sprintf("%d of %d GPUs are free on %s; a pod asks for %d", free, total, nodeWord(out.Nodes), asked)
	}
	if s.request.Demand.ShareMiB > 0 {
		out.Text += fmt.Sprintf(", with %d MiB on each", s.request.Demand.ShareMiB)
	}
	out.Advice = append(out.Advice, wait(misses))
	if most > 0 {
		out.Advice = append(out.Advice, fmt.Sprintf("or ask for at most %s per pod, which node %s has now", gpuWord(most), on))
	}
	if out.Cause == Fragmented {
		out.Advice = append(out.Advice, "or see which moves of other jobs would make room: gpuctl advise defrag")
	}
	if elsewhere := s.poolsWithType(asked); len(elsewhere) > 0 {
		out.Advice = append(out.Advice, "or use another pool: "+listOf(shortened(elsewhere)))
	}
}

// wait says what the job waits for.
func wait(misses []NearMiss) string {
	if len(misses) == 0 {
		return "wait until other jobs end"
	}
	near := misses[0]
	text := fmt.Sprintf("wait: node %s is %s short", near.Node, gpuWord(near.Short))
	if len(near.Holders) == 0 {
		return text
	}
	return text + "; " + near.Holders[0].String() + " there"
}

// String says who holds how many GPUs.
func (h Holder) String() string {
	who := "pod " + h.Pod
	if h.Job != "" {
		who = "job " + h.Job
	}
	return fmt.Sprintf("%s of namespace %s holds %d", who, h.Namespace, h.GPUs)
}

// unsuited is about nodes whose cards cannot serve the pod, however free they are.
func (s *search) unsuited(out *Finding) {
	var best gpu.Reason
	for i := range s.judged {
		if s.judged[i].has(out.Cause) && (best.Code == gpu.Fits || s.judged[i].cards.Usable > best.Usable) {
			best = s.judged[i].cards
		}
	}
	count := nodeWord(out.Nodes)
	switch out.Cause {
	case TooManyGPUs:
		out.Text = fmt.Sprintf("%s with %d GPUs at most; a pod asks for %d on one node", count, best.Total, best.Asked)
		out.Advice = []string{fmt.Sprintf("ask for at most %s per pod; a training job that needs more runs on several nodes with resources.nodes", gpuWord(best.Total))}
	case NoGPUs:
		out.Text = count + " without GPUs"
		out.Advice = []string{"use a pool whose nodes have GPUs: gpuctl get pools", "if they should have some, the device plugin is down: tell the administrators"}
	case GPUMemory:
		out.Text = fmt.Sprintf("%s: %s", count, best.Detail())
		out.Advice = []string{fmt.Sprintf("ask for at most %d MiB on each GPU, or use a pool with larger ones", best.LargestMiB)}
	case UnhealthyGPUs:
		out.Text = fmt.Sprintf("%s: %s", count, best.Detail())
		out.Advice = []string{
			fmt.Sprintf("ask for at most %s per pod until the others are mended", gpuWord(best.Usable)),
			"tell the administrators: gpuctl describe node " + out.Examples[0],
		}
	}
}

// nearMisses returns the nodes that only lack free cards, those that lack the fewest first.
func (s *search) nearMisses() []NearMiss {
	var out []NearMiss
	for i := range s.judged {
		j := &s.judged[i]
		if len(j.blockers) != 1 || !j.cards.IsShortage() {
			continue
		}
		out = append(out, NearMiss{
			NearMiss: explain.NearMiss{Node: j.node.Name, Short: j.cards.Short(), Detail: j.cards.Detail()},
			Holders:  holdersOf(j.holders),
		})
	}
	slices.SortFunc(out, func(a, b NearMiss) int {
		return cmp.Or(cmp.Compare(a.Short, b.Short), cmp.Compare(a.Node, b.Node))
	})
	return out[:min(len(out), explain.MaxNearMisses)]
}

// holdersOf sums up by job what the pods of a node hold, the most first.
func holdersOf(pods []*corev1.Pod) []Holder {
	held := map[Holder]int64{}
	for _, pod := range pods {
		request, err := gpu.RequestOf(pod)
		if count := request.Whole + request.Shared; err == nil && count > 0 {
			key := Holder{Namespace: pod.Namespace, Job: pod.Labels[names.LabelJob]}
			if key.Job == "" {
				key.Pod = pod.Name
			}
			held[key] += count
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

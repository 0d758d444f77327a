package usage

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gang"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

func compareCards(a, b GPU) int {
	return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
}

// buildSlices returns the MIG slices that the agent of a node reports, with their holders. Their load is not measured.
func buildSlices(node *corev1.Node, pods []*corev1.Pod) []GPU {
	all := gpu.HeldSlices(node, pods)
	out := make([]GPU, len(all))
	for i, slice := range all {
		out[i] = GPU{
			Node: node.Name, Index: slice.GPU, UUID: slice.UUID, Profile: slice.Profile, Pool: gpu.PoolOf(node), GPUType: gpu.TypeOf(node),
			MemoryMiB: slice.MemoryMiB, State: Free,
		}
		if slice.Pod != "" {
			out[i].State = Whole
		}
		if slice.Health != gpu.Healthy {
			out[i].State, out[i].Health = Unhealthy, slice.Health
		}
		for _, pod := range pods {
			if slice.Pod != "" && pod.UID == slice.Pod {
				out[i].Holders = []Holder{{Namespace: pod.Namespace, Job: gang.WorkloadOf(pod).JobName(), Pod: pod.Name}}
			}
		}
	}
	return out
}

// buildSliced returns the GPUs of a node in MIG mode, each with the holders of its slices.
func buildSliced(judged *fit.Node, parts []GPU) []GPU {
	var out []GPU
	for _, card := range judged.SlicedGPUs() {
		sliced := newCard(judged.Object, card.GPU, false)
		for i := range parts {
			if parts[i].Index != card.Index || len(parts[i].Holders) == 0 {
				continue
			}
			sliced.Holders = append(sliced.Holders, parts[i].Holders...)
			if sliced.State == Free {
				sliced.State = Shared
			}
		}
		out = append(out, sliced)
	}
	return out
}

// addSlices adds the slices of a pod to those of its job.
func (j *Job) addSlices(more []inventory.AskedProfile) {
	for _, asked := range more {
		i := slices.IndexFunc(j.MIG, func(p inventory.AskedProfile) bool { return p.Profile == asked.Profile })
		if i < 0 {
			j.MIG = append(j.MIG, inventory.AskedProfile{Profile: asked.Profile})
			i = len(j.MIG) - 1
		}
		j.MIG[i].Count += asked.Count
	}
	slices.SortFunc(j.MIG, func(a, b inventory.AskedProfile) int { return cmp.Compare(a.Profile, b.Profile) })
}

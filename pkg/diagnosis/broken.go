package diagnosis

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// brokenGPUs reports GPUs that pods of the job hold and that were found broken since, one finding for each pod. Where gpu-controller runs, it evicts
// pods that cannot continue. The others keep their GPUs, and a program that waits for a dead GPU looks busy.
func brokenGPUs(f *Facts) []Finding {
	var out []Finding
	for i := range f.Pods {
		pod := &f.Pods[i]
		if pod.Spec.NodeName == "" || gpu.HasEnded(pod) || f.Simulated {
			continue
		}
		at := slices.IndexFunc(f.Cluster.Nodes, func(node corev1.Node) bool { return node.Name == pod.Spec.NodeName })
		if at < 0 {
			continue
		}
		if broken := gpu.BrokenGPUsUnder(&f.Cluster.Nodes[at], pod); len(broken) > 0 {
			out = append(out, f.brokenGPUsFinding(pod, broken))
		}
	}
	return out
}

func (f *Facts) brokenGPUsFinding(pod *corev1.Pod, broken []gpu.GPU) Finding {
	told := make([]phrase.Text, len(broken))
	for i := range broken {
		card := &broken[i]
		told[i] = phrase.Textf("GPU %d (%s) %s", card.Index, card.UUID, reason.GPUFaultOf(card.Health).Message)
		if !card.Since.IsZero() {
			told[i] = told[i].Addf(", seen %s", f.sinceText(card.Since))
		}
	}
	node := pod.Spec.NodeName
	again := fmt.Sprintf("kubectl delete pod %s -n %s", pod.Name, pod.Namespace)
	describe := "gpuctl describe node " + node
	return Finding{
		Cause: reason.BrokenGPU, Nodes: 1, Examples: []string{node},
		Message: phrase.Textf("pod %s holds %s that must not be used: %s", pod.Name, gpuWord(int64(len(broken))), phrase.Join(told, phrase.Textf("; "))),
		Steps: []Step{
			{Action: reason.DeletePod, Kind: "Pod", Name: pod.Name, Command: again,
				Message: phrase.Textf("let the pod begin again on healthy GPUs; what it has not saved is lost: %s", again)},
			inspectStep(phrase.Textf("or see first whether it still makes progress"), gpuctlCommand("logs", &f.Job)),
			{Action: reason.MendGPUs, Kind: "Node", Name: node, Command: describe,
				Message: phrase.Textf("tell the administrators, who then %s: %s", reason.GPUFaultOf(broken[0].Health).Remedy, describe)},
		},
	}
}

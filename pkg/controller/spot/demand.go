package spot

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// waitingTooLong returns the pods that have waited for GPUs longer than the delay for buying machines. A gated pod does not wait for GPUs.
func waitingTooLong(pods []corev1.Pod, wait time.Duration, now time.Time) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		if now.Sub(pods[i].CreationTimestamp.Time) >= wait && len(pods[i].Spec.SchedulingGates) == 0 {
			out = append(out, &pods[i])
		}
	}
	return out
}

// machinesToFill returns how many machines of a SpotPool the pods would fill by whole GPUs, the largest pods first. It stops at twice the maximum, because more
// makes no difference. Pods that could not run there do not count.
func machinesToFill(pods []*corev1.Pod, spec *g8s.SpotPoolSpec) int {
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{g8s.LabelPool: spec.Pool}}}
	if spec.GPUType != "" {
		machine.Labels[g8s.LabelGPUType] = spec.GPUType
	}
	var wanted []int64
	for _, pod := range pods {
		request, err := gpu.RequestOf(pod)
		if err != nil || request.Whole < 1 || request.Whole > int64(spec.Template.GPUs) {
			continue
		}
		if types, err := gpu.PodTypes(pod); err != nil || spec.GPUType != "" && !types.MatchesNode(machine) {
			continue
		}
		wanted = append(wanted, request.Whole)
	}
	slices.Sort(wanted)
	slices.Reverse(wanted)
	var free []int64
	most := 2 * int(spec.Maximum) // so many may be idle
	for _, count := range wanted {
		if len(free) == most {
			break
		}
		i := slices.IndexFunc(free, func(left int64) bool { return left >= count })
		if i < 0 {
			free = append(free, int64(spec.Template.GPUs))
			i = len(free) - 1
		}
		free[i] -= count
	}
	return len(free)
}

// adviceOf returns the advice of a GPUPool, if it has one.
func adviceOf(pool *g8s.GPUPool) (machines *int, asOf time.Time) {
	if pool == nil || pool.Status.Advice == nil {
		return nil, time.Time{}
	}
	advice := pool.Status.Advice
	most := 0
	for _, option := range advice.Options {
		most = max(most, int(option.Nodes))
	}
	return &most, advice.AsOf.Time
}

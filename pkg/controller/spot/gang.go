package spot

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/controller/gangs"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// podsToCheckpoint returns the pods of a gang that want to be told to save their state, while they can.
func podsToCheckpoint(ctx context.Context, reader *gangs.Reader, pod *corev1.Pod) ([]*corev1.Pod, error) {
	if pod.DeletionTimestamp != nil {
		return nil, nil
	}
	all, err := reader.GangOf(ctx, pod)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what was read
	}
	var out []*corev1.Pod
	for _, member := range all.Members {
		if member.Annotations[g8s.AnnotationCheckpoint] == g8s.True && member.DeletionTimestamp == nil &&
			member.Spec.NodeName != "" && !gpu.HasEnded(member) {
			out = append(out, member)
		}
	}
	return out, nil
}

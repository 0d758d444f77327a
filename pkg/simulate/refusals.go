package simulate

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// underWay is the maximum number of changes between a refusal and its report.
const underWay = 16

// departure is a pod that left with an event.
type departure struct {
	pod   *corev1.Pod
	event int
}

// verifyRefusal retries a refused pod. Pods that left shortly before the report may still have been there.
func (v *verifier) verifyRefusal(ctx context.Context, pod *corev1.Pod) error {
	if _, ours := v.engine.podProfile(pod); !ours {
		return nil
	}
	v.result.Refusals++
	got, err := v.chooseNext(ctx, pod)
	if err == nil && got.Node != "" {
		if again, retryErr := v.chooseBeside(ctx, pod); again.Node == "" {
			got, err = again, retryErr
			v.result.JustLeft++
		}
	}
	switch {
	case err != nil:
		return err
	case got.Node == "":
		v.result.SameRefusals++
	default:
		v.result.Differences = append(v.result.Differences, Difference{Pod: got.Pod, Recorded: Decision{Pod: got.Pod}, Simulated: got})
	}
	return nil
}

// chooseNext decides about a pod in the attempt after the last recorded one. The number of failed attempts in between is not recorded. A number
// beyond that of the next decision would reset what learns the demand.
func (v *verifier) chooseNext(ctx context.Context, pod *corev1.Pod) (Decision, error) {
	v.engine.attempts.SetLast(v.number)
	got, _, err := v.engine.chooseNode(ctx, pod)
	return got, err
}

// chooseBeside decides about a pod as if the pods that left last were still there.
func (v *verifier) chooseBeside(ctx context.Context, pod *corev1.Pod) (Decision, error) {
	v.departed = slices.DeleteFunc(v.departed, func(d departure) bool { return d.event < v.event-underWay })
	for _, d := range v.departed {
		if err := v.engine.addBoundPod(d.pod); err != nil {
			return Decision{}, err
		}
	}
	got, err := v.chooseNext(ctx, pod)
	for _, d := range v.departed {
		if err := v.engine.removeBoundPod(ctx, d.pod); err != nil {
			return Decision{}, err
		}
	}
	return got, err
}

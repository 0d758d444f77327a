package jobplan

import (
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Retry plans to start a job over that has ended. A Job can only be made anew, which anew says; the step is for a
// Deployment.
func Retry(top client.Object) (out Step, anew bool, err error) {
	name := top.GetLabels()[names.LabelJob]
	switch StateOf(top) {
	case StateSucceeded, StateFailed, StateCancelled:
		if _, ok := top.(*appsv1.Deployment); !ok {
			return Step{GPUs: GPUs(top)}, true, nil
		}
		out, err = wake(top)
		return out, false, err
	case StatePaused:
		return Step{}, false, refuse(top, "Let it go on: gpuctl resume "+name)
	}
	return Step{}, false, refuse(top, "Only a job that has ended can be started over. End it first: gpuctl cancel "+name)
}

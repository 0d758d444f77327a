package plugins

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/plugins/gpudevices"
)

// reportRefusals reports to Coscheduling which pods lose their places after a node was found for them, whichever component refuses them. All
// failures pass here: of Reserve, Permit, PreBind and Bind. Such a pod lost what victims left for it, and would lose it again. It also reports
// pods that found no node if an earlier plugin failed at PostFilter.
func reportRefusals(handle scheduler.FailureHandlerFn) scheduler.FailureHandlerFn {
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		switch {
		case ctx.Err() != nil:
		case pod.Pod.Spec.NodeName != "": // the pod as it was to be bound
			status = reportRefusal(profile, pod, status)
		default:
			reportMissedPostFilter(profile, pod, status)
		}
		handle(ctx, profile, pod, status, nominating, start)
	}
}

// reportMissedPostFilter reports a pod that found no node to Coscheduling, if its PostFilter was not called.
func reportMissedPostFilter(profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status) {
	var unfit *framework.FitError
	if _, gangs := preemptionsOf(profile); gangs != nil && errors.As(status.AsError(), &unfit) && unfit.Diagnosis.NodeToStatus != nil {
		if told := gangs.HandleMissedPostFilter(pod.Pod, unfit.Diagnosis.NodeToStatus); told != "" {
			unfit.Diagnosis.PostFilterMsg = told
		}
	}
}

// reportRefusal returns the status of a pod that lost its place, with Coscheduling's message.
func reportRefusal(profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status) *fwk.Status {
	_, gangs := preemptionsOf(profile)
	if gangs == nil {
		return status
	}
	words, isSiblings := refusalIn(status, pod.Pod.Spec.NodeName)
	record := gangs.RecordLostPlace
	if isVerdict(status) {
		record = gangs.RecordRefusal
	}
	if gpudevices.RefusedByFence(words) {
		return status
	}
	if isSiblings {
		gangs.RecordRejection(pod.Pod)
		return status
	}
	told := record(pod.Pod, words)
	if told == "" {
		return status
	}
	klog.Background().Info("A pod lost its place after a node was found for it", "pod", klog.KObj(pod.Pod), "node", pod.Pod.Spec.NodeName, "told", told)
	var unfit *framework.FitError
	if errors.As(status.AsError(), &unfit) { // the queue reads the rejecting plugins from it
		unfit.Diagnosis.PostFilterMsg = told
		return status
	}
	if status.IsRejected() {
		return fwk.NewStatus(status.Code(), told).WithPlugin(status.Plugin())
	}
	return fwk.AsStatus(errors.New(told))
}

// isVerdict reports whether a pod lost its place by a verdict of a plugin or of the API server, and not by an accident: a response or a volume that
// did not come, or a webhook that could not be called.
func isVerdict(status *fwk.Status) bool {
	return status.IsRejected() || gpudevices.IsVerdict(status.AsError())
}

// refusalIn returns why a pod lost its place, in the words of the refusal, and whether a sibling of its gang caused it.
func refusalIn(status *fwk.Status, node string) (words string, isSiblings bool) {
	var unfit *framework.FitError
	if errors.As(status.AsError(), &unfit) {
		isSiblings = unfit.Diagnosis.UnschedulablePlugins.Has(coscheduling.Name)
		if unfit.Diagnosis.NodeToStatus != nil {
			status = unfit.Diagnosis.NodeToStatus.Get(node)
		}
	}
	words = status.Message()
	if plugin := status.Plugin(); plugin != "" {
		words = plugin + ": " + words
	}
	return strings.TrimPrefix(words, `running Bind plugin "`+gpudevices.Name+`": `), isSiblings
}

package idle

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/jobplan"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// Bounds of the timeout, as the YAML has them, for annotations that others wrote.
const (
	minTimeout = 10 * time.Minute
	maxTimeout = 72 * time.Hour
)

// job is a job that holds GPUs, with all of its pods that do.
type job struct {
	top client.Object
	// timeout is the idle time after which it is paused, 0 for never. own is the job's own setting.
	timeout, own time.Duration
	pods         []Pod
}

// jobKey identifies a job by its labels.
type jobKey struct{ namespace, kind, name string }

func keyOf(object client.Object) (jobKey, bool) {
	key := jobKey{object.GetNamespace(), object.GetLabels()[g8s.LabelJobType], object.GetLabels()[g8s.LabelJob]}
	return key, key.kind != "" && key.name != ""
}

// gatherJobs reads the active jobs that hold GPUs, with all of their pods.
func gatherJobs(ctx context.Context, reader client.Reader) ([]job, error) {
	tops, err := topsOf(ctx, reader)
	if err != nil {
		return nil, err
	}
	pods, pools, err := holdersOf(ctx, reader)
	if err != nil {
		return nil, err
	}
	defaults, err := defaultsOf(ctx, reader)
	if err != nil {
		return nil, err
	}
	var out []job
	for key, top := range tops {
		if len(pods[key]) > 0 && jobplan.StateOf(top) == jobplan.StateActive {
			own := timeoutOf(top)
			timeout := own
			if _, says := top.GetAnnotations()[g8s.AnnotationIdleTimeout]; !says && key.kind != string(workload.KindInference) {
				timeout = defaults[pools[key]]
			}
			out = append(out, job{top: top, timeout: timeout, own: own, pods: pods[key]})
		}
	}
	return out, nil
}

// holdersOf returns the pods of jobs that request GPUs and have not ended, and the pools of the jobs.
func holdersOf(ctx context.Context, reader client.Reader) (map[jobKey][]Pod, map[jobKey]string, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.HasLabels{g8s.LabelJob}); err != nil {
		return nil, nil, fmt.Errorf("listing pods: %w", err)
	}
	pods, pools := map[jobKey][]Pod{}, map[jobKey]string{}
	for i := range list.Items {
		pod := &list.Items[i]
		key, ok := keyOf(pod)
		if request, err := gpu.RequestOf(pod); !ok || err == nil && request.IsZero() || gpu.HasEnded(pod) {
			continue
		}
		pods[key] = append(pods[key], podOf(pod))
		pools[key] = gpu.PodPool(pod)
	}
	return pods, pools, nil
}

// defaultsOf returns the default timeouts by pool. The cluster may lack the GPUPool kind.
func defaultsOf(ctx context.Context, reader client.Reader) (map[string]time.Duration, error) {
	var list g8s.GPUPoolList
	if err := reader.List(ctx, &list); meta.IsNoMatchError(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("listing GPUPools: %w", err)
	}
	out := map[string]time.Duration{}
	for i := range list.Items {
		out[list.Items[i].Name] = boundTimeout(list.Items[i].Spec.Defaults.IdleAfter())
	}
	return out, nil
}

func topsOf(ctx context.Context, reader client.Reader) (map[jobKey]client.Object, error) {
	var jobs batchv1.JobList
	var deployments appsv1.DeploymentList
	if err := reader.List(ctx, &jobs, client.HasLabels{g8s.LabelJob}); err != nil {
		return nil, fmt.Errorf("listing Jobs: %w", err)
	}
	if err := reader.List(ctx, &deployments, client.HasLabels{g8s.LabelJob}); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	out := map[jobKey]client.Object{}
	for i := range jobs.Items {
		if key, ok := keyOf(&jobs.Items[i]); ok {
			out[key] = &jobs.Items[i]
		}
	}
	for i := range deployments.Items {
		if key, ok := keyOf(&deployments.Items[i]); ok {
			out[key] = &deployments.Items[i]
		}
	}
	return out, nil
}

// timeoutOf returns the timeout of a job, 0 for none. Invalid or disallowed values count as none.
func timeoutOf(top client.Object) time.Duration {
	timeout, err := time.ParseDuration(top.GetAnnotations()[g8s.AnnotationIdleTimeout])
	if err != nil {
		return 0
	}
	return boundTimeout(timeout)
}

func boundTimeout(timeout time.Duration) time.Duration {
	if timeout < minTimeout || timeout > maxTimeout {
		return 0
	}
	return timeout
}

// podOf returns the facts about a pod. A pod that is terminating, or whose containers do not all run, has not started, so its job is not idle.
func podOf(pod *corev1.Pod) Pod {
	out := Pod{}
	assignment, err := gpu.ParseAssignment(pod.Annotations[g8s.AnnotationGPUDevices])
	if err != nil {
		return out
	}
	for _, devices := range assignment {
		for _, device := range devices {
			out.GPUs = append(out.GPUs, GPU{UUID: device.UUID, Node: pod.Spec.NodeName, Index: device.Index})
		}
	}
	if pod.DeletionTimestamp != nil || len(pod.Status.ContainerStatuses) < len(pod.Spec.Containers) {
		return out
	}
	var started time.Time
	for i := range pod.Status.ContainerStatuses {
		running := pod.Status.ContainerStatuses[i].State.Running
		if running == nil {
			return out
		}
		if running.StartedAt.After(started) {
			started = running.StartedAt.Time
		}
	}
	out.Started = started
	return out
}

package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// Pod is one pod of a job.
type Pod struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid,omitempty"`
	// Rank is the pod's place in a job of several nodes, from 0; nil in every other job.
	Rank  *int   `json:"rank,omitempty"`
	Node  string `json:"node,omitempty"`
	IP    string `json:"ip,omitempty"`
	Phase string `json:"phase"`
	// Ready pods run and pass their readiness probe.
	Ready    bool  `json:"ready"`
	Restarts int32 `json:"restarts"`
	// ExitCode is that of the container that ended last, in this run or the one before; nil if none has.
	ExitCode *int32 `json:"exitCode,omitempty"`
	// Devices is the scheduler's choice of GPUs, as the pod's annotation has it.
	Devices string `json:"devices,omitempty"`
	// GPUs are these, each once, by index. Details of a job alone have them.
	GPUs []gpu.Device `json:"-"`
	// Slices are the MIG slices that were chosen for the pod, or that its node reports; see [Reader.FillDevices]. Only details of a job have them.
	Slices     []gpu.Slice      `json:"slices,omitempty"`
	Created    time.Time        `json:"created"`
	Started    *time.Time       `json:"started,omitempty"`
	Containers []ContainerState `json:"containers,omitempty"`
	Trouble
	status Status
	// sliced pods ask for MIG slices.
	sliced bool
	// disrupted pods have lost their place, and were not at fault.
	disrupted bool
	// unheard pods name a profile of our scheduler that no scheduler serves.
	unheard bool
}

// Trouble explains why something does not run: a CamelCase word for programs, and a sentence for people.
type Trouble struct {
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// BuildPods returns a row for each pod, sorted by name.
func BuildPods(pods []corev1.Pod) []Pod {
	out := make([]Pod, 0, len(pods))
	for i := range pods {
		out = append(out, buildPod(&pods[i]))
	}
	slices.SortFunc(out, func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func buildPod(pod *corev1.Pod) Pod {
	out := Pod{
		Name:       pod.Name,
		UID:        pod.UID,
		Rank:       podRank(pod),
		Node:       pod.Spec.NodeName,
		IP:         pod.Status.PodIP,
		Phase:      string(pod.Status.Phase),
		Ready:      podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue,
		Devices:    pod.Annotations[names.AnnotationGPUDevices],
		Created:    pod.CreationTimestamp.Time,
		Containers: buildContainers(pod),
	}
	if pod.Status.StartTime != nil {
		out.Started = &pod.Status.StartTime.Time
	}
	var ended *corev1.ContainerStateTerminated
	for i := range pod.Status.ContainerStatuses {
		container := &pod.Status.ContainerStatuses[i]
		out.Restarts += container.RestartCount
		ended = laterTermination(ended, container.LastTerminationState.Terminated)
		ended = laterTermination(ended, container.State.Terminated)
	}
	if ended != nil {
		out.ExitCode = &ended.ExitCode
	}
	out.status, out.Trouble = judgePod(pod)
	out.disrupted = podDisruption(pod).Reason != ""
	return out
}

// WasDisrupted reports whether the pod was removed without being at fault. Its Trouble names the cause.
func (p Pod) WasDisrupted() bool { return p.disrupted }

// podRank reads the completion index of an indexed Job's pod.
func podRank(pod *corev1.Pod) *int {
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return nil
	}
	return &index
}

func laterTermination(a, b *corev1.ContainerStateTerminated) *corev1.ContainerStateTerminated {
	if a == nil || b != nil && a.FinishedAt.Before(&b.FinishedAt) {
		return b
	}
	return a
}

// judgePod decides the status of one pod, and what keeps it from running.
func judgePod(pod *corev1.Pod) (Status, Trouble) {
	scheduled := podCondition(pod, corev1.PodScheduled)
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return StatusSucceeded, Trouble{}
	case pod.Status.Phase == corev1.PodFailed:
		return StatusFailed, podFailure(pod)
	case pod.DeletionTimestamp != nil:
		return StatusTerminating, terminatingTrouble(pod)
	case isLost(pod):
		return StatusFailing, lostPodTrouble(pod)
	case isGatedByKueue(pod):
		return StatusPending, kueueTrouble(pod.Labels[names.LabelKueueQueue])
	case pod.Spec.NodeName == "" && scheduled.Status == corev1.ConditionFalse:
		return StatusPending, Trouble{Reason: string(reason.CauseOfUnplaced(pod)), Message: ShortenVerdict(scheduled.Message)}
	case pod.Spec.NodeName == "":
		return StatusPending, Trouble{Reason: string(reason.CauseOfUnplaced(pod)), Message: "the scheduler has not looked at the pod yet"}
	}
	return judgeContainers(pod)
}

// unscheduled are the causes of pods without a node that our scheduler does not look at.
var unscheduled = []reason.Cause{reason.SchedulingGated, reason.OtherScheduler, reason.Cause(ReasonHeldByKueue)}

// AwaitsScheduler reports whether a job's trouble is that the scheduler has found no node for one of its pods.
func (j *Job) AwaitsScheduler() bool {
	return slices.ContainsFunc(j.Pods, func(p Pod) bool {
		return p.Phase == string(corev1.PodPending) && p.Node == "" && p.Trouble == j.Trouble && (p.unheard || !slices.Contains(unscheduled, reason.Cause(p.Reason)))
	})
}

func judgeContainers(pod *corev1.Pod) (Status, Trouble) {
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		cause := reason.CauseOfContainer(&statuses[i])
		if cause == "" {
			continue
		}
		waiting := statuses[i].State.Waiting
		return StatusFailing, Trouble{Reason: string(cause), Message: cmp.Or(withLastExit(waiting.Message, &statuses[i]), waiting.Reason)}
	}
	ready := podCondition(pod, corev1.PodReady)
	switch {
	case ready.Status == corev1.ConditionTrue:
		return StatusRunning, Trouble{}
	case pod.Status.Phase == corev1.PodRunning && ready.Reason != "":
		return StatusStarting, Trouble{Reason: string(reason.Starting), Message: ready.Message}
	case pod.Status.Phase == corev1.PodRunning:
		return StatusRunning, Trouble{} // its readiness has not been determined yet
	}
	return StatusStarting, Trouble{Reason: string(reason.Starting), Message: "the node is preparing the containers"}
}

// podFailure explains why a pod that will not run again has failed: a disruption first, then its own reason, such as Evicted, then a container's.
func podFailure(pod *corev1.Pod) Trouble {
	if by := podDisruption(pod); by.Reason != "" {
		return by
	}
	if pod.Status.Reason != "" {
		return Trouble{Reason: pod.Status.Reason, Message: pod.Status.Message}
	}
	statuses := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	for i := range statuses {
		if ended := statuses[i].State.Terminated; ended != nil && ended.ExitCode != 0 {
			return Trouble{Reason: cmp.Or(ended.Reason, "Error"), Message: exitSentence(statuses[i].Name, ended)}
		}
	}
	return Trouble{Reason: "Error", Message: pod.Status.Message}
}

func withLastExit(message string, container *corev1.ContainerStatus) string {
	ended := container.LastTerminationState.Terminated
	if ended == nil {
		return message
	}
	last := exitSentence(container.Name, ended)
	if message == "" {
		return last
	}
	return last + "; " + message
}

func exitSentence(container string, ended *corev1.ContainerStateTerminated) string {
	out := fmt.Sprintf("container %s ended with exit code %d", container, ended.ExitCode)
	if ended.Reason != "" && ended.Reason != "Error" {
		out += " (" + ended.Reason + ")"
	}
	if ended.Message != "" {
		out += ": " + ended.Message
	}
	return out
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

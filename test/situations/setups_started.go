package situations

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// startedSetups are about pods that have a node.
var startedSetups = map[string]func(*World){
	"image that is not there":   func(w *World) { w.holdContainer("ImagePullBackOff", "not found", nil) },
	"image of a bad name":       func(w *World) { w.holdContainer("InvalidImageName", "couldn't parse image name", nil) },
	"secret that is not there":  func(w *World) { w.holdContainer("CreateContainerConfigError", `secret "token" not found`, nil) },
	"program that is not there": func(w *World) { w.holdContainer("RunContainerError", "exec: not found", nil) },
	"container on its way":      func(w *World) { w.holdContainer("ContainerCreating", "", nil) },
	"crash after crash": func(w *World) {
		w.holdContainer("CrashLoopBackOff", "", &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error"})
	},
	"out of memory again": func(w *World) {
		w.holdContainer("CrashLoopBackOff", "", &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"})
	},
	"start that fails and fails": func(w *World) {
		w.holdContainer("CrashLoopBackOff", "", &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError"})
	},
	"word that nobody has heard of": func(w *World) { w.holdContainer("HookFailed", "the hook failed", nil) },
	"volume that cannot be mounted": func(w *World) {
		w.holdContainer("ContainerCreating", "", nil)
		w.addEvent("FailedMount", "no such path /data")
	},
	"probe that fails": func(w *World) {
		w.makeService(1)
		w.holdContainer("", "", nil)
		pod := &w.placed[0]
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady", Message: "containers with unready status: [main]"}}
		w.addEvent("Unhealthy", "Readiness probe failed: connection refused")
	},
	"node lost": func(w *World) {
		w.unmade = true
		w.placePod(func(pod *corev1.Pod) {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
		})
		nodeSetups["node not ready"](w)
	},
	"evicted":     func(w *World) { w.endPod("EvictionByEvictionAPI") },
	"preempted":   func(w *World) { w.endPod(corev1.PodReasonPreemptionByScheduler) },
	"pod deleted": func(w *World) { w.endPod("") },
}

// holdContainer has the job's only pod be on its node, with a container that kubelet says a word about.
func (w *World) holdContainer(word, message string, last *corev1.ContainerStateTerminated) {
	w.unmade = true
	w.placePod(func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", Image: "image", RestartCount: 3, LastTerminationState: corev1.ContainerState{Terminated: last},
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: word, Message: message}},
		}}
	})
}

// addEvent adds an event about the job's first pod.
func (w *World) addEvent(why, message string) {
	w.events = append(w.events, corev1.Event{
		Type: corev1.EventTypeWarning, Reason: why, Message: message, LastTimestamp: metav1.NewTime(Noon.Add(-time.Minute)),
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: w.placed[0].Name, UID: w.placed[0].UID},
	})
}

// endPod has the job's only pod be on its way out, for a reason of its condition DisruptionTarget, "" for none.
func (w *World) endPod(why string) {
	w.unmade = true
	w.placePod(func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: Noon.Add(20 * time.Second)}, ptr.To[int64](30)
		if why != "" {
			pod.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: why, LastTransitionTime: metav1.NewTime(Noon.Add(-10 * time.Second)),
			}}
		}
	})
}

// makeService makes the job a service of some replicas.
func (w *World) makeService(replicas int32) {
	w.meta.Labels[names.LabelJobType], w.template.Labels[names.LabelJobType] = "inference", "inference"
	w.service = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &replicas}}
}

// makeReplicas makes the job a service of three replicas, two of which hold all GPUs.
func (w *World) makeReplicas(cannotPull bool) {
	w.makeService(3)
	for range 2 {
		w.placePod(func(pod *corev1.Pod) {
			if cannotPull {
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", Image: "typo", State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "not found"},
				}}}
				return
			}
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			w.service.Status.ReadyReplicas++
		})
	}
	w.sayVerdict("room", oneNode+"node(s) have too few free GPUs.")
}

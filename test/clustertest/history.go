package clustertest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// History is what was seen of the pods of a namespace, those included that are gone.
type History struct {
	mu   sync.Mutex
	pods map[types.UID]Sighting
}

// Sighting is a pod as it was seen last, and when it was first seen on a node, to run, and to have ended.
type Sighting struct {
	Pod                   *corev1.Pod
	Bound, Running, Ended time.Time
	Gone                  bool
}

func watchPods(e *Env) *History {
	e.Helper()
	watcher, err := e.Cluster.Client.CoreV1().Pods(e.Namespace).Watch(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	h := &History{pods: map[types.UID]Sighting{}}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				h.see(pod, event.Type == watch.Deleted, time.Now())
			}
		}
	}()
	e.Cleanup(watcher.Stop)
	return h
}

func (h *History) see(pod *corev1.Pod, gone bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.pods[pod.UID]
	seen.Pod, seen.Gone = pod, gone
	if seen.Bound.IsZero() && pod.Spec.NodeName != "" {
		seen.Bound = now
	}
	if seen.Running.IsZero() && pod.Status.Phase == corev1.PodRunning {
		seen.Running = now
	}
	if seen.Ended.IsZero() && (gone || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded) {
		seen.Ended = now
	}
	h.pods[pod.UID] = seen
}

// Of returns what was seen of a pod.
func (h *History) Of(uid types.UID) Sighting {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pods[uid]
}

// OfJob returns what was seen of a job's pods, by rank and then by age.
func (h *History) OfJob(name string) []Sighting {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Sighting
	for _, seen := range h.pods {
		if seen.Pod.Labels[names.LabelJob] == name {
			out = append(out, seen)
		}
	}
	slices.SortFunc(out, func(a, b Sighting) int {
		return cmp.Or(cmp.Compare(Rank(a.Pod), Rank(b.Pod)), a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time))
	})
	return out
}

// Running returns the pods of a job that run and are to go on running.
func (h *History) Running(name string) []Sighting {
	return slices.DeleteFunc(h.OfJob(name), func(seen Sighting) bool {
		return seen.Gone || seen.Pod.Status.Phase != corev1.PodRunning || seen.Pod.DeletionTimestamp != nil
	})
}

// Successor returns the pod that runs in the place of one that was lost.
func (h *History) Successor(name string, lost *corev1.Pod) (Sighting, bool) {
	before := h.Of(lost.UID)
	for _, seen := range h.Running(name) {
		if seen.Pod.UID != lost.UID && Rank(seen.Pod) == Rank(lost) && seen.Running.After(before.Running) {
			return seen, true
		}
	}
	return Sighting{}, false
}

// Rank is the index of a gang's member, "" for a pod of no gang.
func Rank(pod *corev1.Pod) string { return pod.Annotations[batchv1.JobCompletionIndexAnnotation] }

// DisruptedBy is the reason of a pod's condition DisruptionTarget, "" without it.
func DisruptedBy(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return condition.Reason
		}
	}
	return ""
}

// String is what to show when a test fails.
func (h *History) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, seen := range h.pods {
		lines = append(lines, fmt.Sprintf("%s on %q: %s %s, deleted %v, gone %t, finalizers %v, disrupted by %q",
			seen.Pod.Name, seen.Pod.Spec.NodeName, seen.Pod.Status.Phase, scheduled(seen.Pod), seen.Pod.DeletionTimestamp, seen.Gone,
			seen.Pod.Finalizers, DisruptedBy(seen.Pod)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// scheduled is what the scheduler says of a pod.
func scheduled(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Message
		}
	}
	return ""
}

package controller

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// history is what was seen of the pods of a namespace, those included that are gone.
type history struct {
	mu   sync.Mutex
	pods map[types.UID]sighting
}

// sighting is a pod as it was seen last, and when it was first seen on a node, to run, and to have ended.
type sighting struct {
	pod                   *corev1.Pod
	bound, running, ended time.Time
	gone                  bool
}

func watchPods(t *testing.T, namespace string) *history {
	t.Helper()
	watcher, err := client.CoreV1().Pods(namespace).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h := &history{pods: map[types.UID]sighting{}}
	go func() {
		defer watcher.Stop()
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				h.see(pod, event.Type == watch.Deleted, time.Now())
			}
		}
	}()
	t.Cleanup(func() { watcher.Stop() })
	return h
}

func (h *history) see(pod *corev1.Pod, gone bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.pods[pod.UID]
	seen.pod, seen.gone = pod, gone
	if seen.bound.IsZero() && pod.Spec.NodeName != "" {
		seen.bound = now
	}
	if seen.running.IsZero() && pod.Status.Phase == corev1.PodRunning {
		seen.running = now
	}
	if seen.ended.IsZero() && (gone || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded) {
		seen.ended = now
	}
	h.pods[pod.UID] = seen
}

func (h *history) of(uid types.UID) sighting {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pods[uid]
}

// ofJob returns what was seen of a job's pods, by rank and then by age.
func (h *history) ofJob(name string) []sighting {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []sighting
	for _, seen := range h.pods {
		if seen.pod.Labels[names.LabelJob] == name {
			out = append(out, seen)
		}
	}
	slices.SortFunc(out, func(a, b sighting) int {
		return cmp.Or(cmp.Compare(rank(a.pod), rank(b.pod)), a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time))
	})
	return out
}

// running returns the pods of a job that run and are to go on running.
func (h *history) running(name string) []sighting {
	return slices.DeleteFunc(h.ofJob(name), func(seen sighting) bool {
		return seen.gone || seen.pod.Status.Phase != corev1.PodRunning || seen.pod.DeletionTimestamp != nil
	})
}

// successor returns the pod that runs in the place of one that was lost.
func (h *history) successor(name string, lost *corev1.Pod) (sighting, bool) {
	before := h.of(lost.UID)
	for _, seen := range h.running(name) {
		if seen.pod.UID != lost.UID && rank(seen.pod) == rank(lost) && seen.running.After(before.running) {
			return seen, true
		}
	}
	return sighting{}, false
}

func rank(pod *corev1.Pod) string { return pod.Annotations[batchv1.JobCompletionIndexAnnotation] }

// String is what to show when a test fails.
func (h *history) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, seen := range h.pods {
		lines = append(lines, fmt.Sprintf("%s on %q: %s, deleted %v, gone %t, finalizers %v",
			seen.pod.Name, seen.pod.Spec.NodeName, seen.pod.Status.Phase, seen.pod.DeletionTimestamp, seen.gone, seen.pod.Finalizers))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

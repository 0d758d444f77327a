package sandbox

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestDeletedPodsEndAsUnderAKubelet deletes pods, and looks at them after their containers have ended and before they are
// gone: a finalizer keeps them for so long, as that of Jobs does.
func TestDeletedPodsEndAsUnderAKubelet(t *testing.T) {
	s, err := Start(t.Context(), Options{Kwok: true, Fleet: oneNode()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopAndCheck(t, s) })
	tests := map[string]struct {
		annotations map[string]string
		policy      corev1.RestartPolicy
		// notStarted pods are deleted before they run.
		notStarted bool
		grace      int64
		phase      corev1.PodPhase
		exitCode   int32
		reason     string
		// least and most are the time that it takes.
		least, most time.Duration
	}{
		"a program that knows nothing of SIGTERM ends by it at once": {
			grace: 30, phase: corev1.PodFailed, exitCode: 143, reason: "Error", most: 5 * time.Second,
		},
		"a pod of a Deployment is not started again when it is deleted": {
			policy: corev1.RestartPolicyAlways, grace: 30, phase: corev1.PodFailed, exitCode: 143, reason: "Error", most: 5 * time.Second,
		},
		"a program that saves its work ends when it is done": {
			annotations: map[string]string{AnnotationStopAfter: "4s", AnnotationStopExitCode: "0"},
			grace:       30, phase: corev1.PodSucceeded, exitCode: 0, reason: "Completed", least: 3 * time.Second, most: 9 * time.Second,
		},
		"a program that does not end in time is killed": {
			annotations: map[string]string{AnnotationStopAfter: "1h", AnnotationStopExitCode: "0"},
			grace:       4, phase: corev1.PodFailed, exitCode: 137, reason: "Error", least: 3 * time.Second, most: 9 * time.Second,
		},
		"without grace it is killed at once": {
			annotations: map[string]string{AnnotationStopAfter: "1h"},
			grace:       0, phase: corev1.PodFailed, exitCode: 137, reason: "Error", most: 5 * time.Second,
		},
		"a pod that had not started has failed, and nobody knows how": {
			annotations: map[string]string{AnnotationStartDelay: "1h"}, notStarted: true,
			grace: 30, phase: corev1.PodFailed, exitCode: 137, reason: "ContainerStatusUnknown", most: 5 * time.Second,
		},
		"a time that is none counts as no time": {
			annotations: map[string]string{AnnotationStopAfter: "soon"},
			grace:       30, phase: corev1.PodFailed, exitCode: 143, reason: "Error", most: 5 * time.Second,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := clientOf(t, s).CoreV1().Pods("default")
			pod, err := client.Create(t.Context(), &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					GenerateName: "ends-", Annotations: tc.annotations, Finalizers: []string{"sandbox.g8s.host/test"},
				},
				Spec: corev1.PodSpec{
					NodeName: "node-01", RestartPolicy: tc.policy,
					InitContainers: []corev1.Container{
						{Name: "init", Image: "none"},
						{Name: "sidecar", Image: "none", RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways)},
					},
					Containers: []corev1.Container{{Name: "main", Image: "none"}},
				},
			}, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if !tc.notStarted {
				waitForPhase(t, s, pod.Name, corev1.PodRunning)
			}
			began := time.Now()
			if err := client.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(tc.grace)}); err != nil {
				t.Fatal(err)
			}
			pod = waitForPhase(t, s, pod.Name, tc.phase)
			if took := time.Since(began); took < tc.least || took > tc.most {
				t.Errorf("the containers took %s to end, want %s to %s", took, tc.least, tc.most)
			}
			ended := pod.Status.ContainerStatuses[0].State.Terminated
			if ended == nil || ended.ExitCode != tc.exitCode || ended.Reason != tc.reason || ended.FinishedAt.IsZero() {
				t.Errorf("the container ended with %+v, want exit code %d and reason %s", ended, tc.exitCode, tc.reason)
			}
			for _, init := range pod.Status.InitContainerStatuses {
				want := map[string]int32{"sidecar": tc.exitCode}[init.Name]
				if init.State.Terminated == nil || init.State.Terminated.ExitCode != want {
					t.Errorf("the container %s is %+v, want that it has ended with exit code %d", init.Name, init.State, want)
				}
			}
			release := []byte(`{"metadata":{"finalizers":null}}`)
			if _, err := client.Patch(t.Context(), pod.Name, types.MergePatchType, release, metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			poll(t, "the pod to go", func(ctx context.Context) bool {
				_, err := client.Get(ctx, pod.Name, metav1.GetOptions{})
				return err != nil
			})
		})
	}
}

// oneNode is the smallest fleet.
func oneNode() *Fleet {
	fleet := Fleet{Groups: []NodeGroup{DefaultFleet().Groups[0]}}
	fleet.Groups[0].NamePrefix, fleet.Groups[0].Count = "node", 1
	return &fleet
}

package disruption

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// TestAJobThatLosesItsPodRunsAgain takes the pod of a job away on a node that lives, in every way that there is. There is
// room all the time.
func TestAJobThatLosesItsPodRunsAgain(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		lose func(*env, *corev1.Pod)
		// by is the reason of the condition DisruptionTarget, "" where Kubernetes knows of none.
		by string
		// costs is how many retries it costs.
		costs    int32
		exitCode int32
	}{
		"an eviction, as by an administrator or a controller": {
			lose: (*env).Evict, by: "EvictionByEvictionAPI", exitCode: 143,
		},
		"kubectl drain": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Kubectl("drain", pod.Spec.NodeName, "--delete-emptydir-data", "--ignore-daemonsets")
			},
			by: "EvictionByEvictionAPI", exitCode: 143,
		},
		"a taint that the job does not tolerate": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Kubectl("taint", "node", pod.Spec.NodeName, "maintenance=now:NoExecute")
			},
			by: "DeletionByTaintManager", exitCode: 143,
		},
		"the shutdown of its node": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Report(pod, `{"phase":"Failed","reason":"Terminated","message":"Pod was terminated in response to imminent node shutdown.",
					"conditions":[{"type":"DisruptionTarget","status":"True","reason":"TerminationByKubelet"},{"type":"Ready","status":"False"}],
					"containerStatuses":[{"name":"main","image":"busybox","imageID":"","ready":false,"restartCount":0,
						"state":{"terminated":{"exitCode":143,"reason":"Error","finishedAt":"`+time.Now().UTC().Format(time.RFC3339)+`"}}}]}`)
			},
			by: "TerminationByKubelet", exitCode: 143,
		},
		"a crash of its node, which is back before Kubernetes gives it up": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Report(pod, `{"phase":"Failed","conditions":[{"type":"Ready","status":"False","reason":"PodFailed"}],
					"containerStatuses":[{"name":"main","image":"busybox","imageID":"","ready":false,"restartCount":0,
						"state":{"terminated":{"exitCode":255,"reason":"Unknown","finishedAt":"`+time.Now().UTC().Format(time.RFC3339)+`"}}}]}`)
			},
			costs: 1, exitCode: 255,
		},
		// Kubernetes does not tell a deletion by hand from a failure.
		"kubectl delete pod": {
			lose:  func(e *env, pod *corev1.Pod) { e.Kubectl("delete", "pod", "-n", e.Namespace, pod.Name, "--wait=false") },
			costs: 1, exitCode: 143,
		},
		"kubectl delete pod --force": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Kubectl("delete", "pod", "-n", e.Namespace, pod.Name, "--force", "--wait=false")
			},
			costs: 1, exitCode: 143,
		},
		// These are failures of the job, and count.
		"a program that fails": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Kubectl("annotate", "pod", "-n", e.Namespace, pod.Name, sandbox.AnnotationFailAfter+"=0s")
			},
			costs: 1, exitCode: 1,
		},
		"a program that uses more memory than it asked": {
			lose: func(e *env, pod *corev1.Pod) {
				e.Kubectl("annotate", "pod", "-n", e.Namespace, pod.Name, sandbox.AnnotationFailAfter+"=0s",
					sandbox.AnnotationExitCode+"=137", sandbox.AnnotationFailReason+"=OOMKilled")
			},
			costs: 1, exitCode: 137,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			pod := e.Start(clustertest.Job{Name: "sft", GPUs: 4, Retries: 3})[0]
			tc.lose(e, pod)
			lost := e.Ended(pod)
			e.disrupted(lost.Pod, tc.by)
			if code := lost.Pod.Status.ContainerStatuses[0].State.Terminated.ExitCode; code != tc.exitCode {
				t.Errorf("the container ended with exit code %d, want %d", code, tc.exitCode)
			}
			e.AgainSoon("sft", pod, lost.Ended)
			if status := e.Status("sft"); status.Failed != tc.costs {
				t.Errorf("the job has failed %d times, want %d: %+v", status.Failed, tc.costs, status)
			}
		})
	}
}

// TestDisruptionsCostNoRetries evicts a job twice that may not fail once. Kubernetes lets it wait longer each time: it
// counts how often pods of a job ended badly, for whichever reason.
func TestDisruptionsCostNoRetries(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 1})[0]
	for _, wait := range []time.Duration{clustertest.Soon, 2 * clustertest.Soon} {
		e.Evict(pod)
		room := e.Ended(pod).Ended
		pod = e.AgainWithin(wait, "sft", pod, room)
	}
	if status := e.Status("sft"); status.Failed != 0 || len(status.Conditions) != 0 {
		t.Errorf("the job is %+v, want it to go on as if nothing had been", status)
	}
}

// TestAFailureEndsAJobWithoutRetries is what the test above is not.
func TestAFailureEndsAJobWithoutRetries(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.Start(clustertest.Job{Name: "sft", GPUs: 1, Pod: map[string]string{sandbox.AnnotationFailAfter: "1s"}})
	e.Eventually("the job to have failed", func(context.Context) (bool, error) {
		return e.Status("sft").Failed == 1, nil
	})
}

// TestAProgramThatSavesItsWorkHasTheTimeForIt: the GPUs are not given away before it has ended.
func TestAProgramThatSavesItsWorkHasTheTimeForIt(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 8, Pod: map[string]string{sandbox.AnnotationStopAfter: "5s"}})[0]
	for _, node := range e.Nodes {
		e.cordon(node, node != pod.Spec.NodeName)
	}
	e.Submit(clustertest.Job{Name: "next", GPUs: 8})
	began := time.Now()
	e.Evict(pod)
	ended := e.Ended(pod).Ended
	if took := ended.Sub(began); took < 3*time.Second {
		t.Errorf("the pod ended after %s, want 5 s", took)
	}
	next := e.Running("next", 1)[0]
	if began := e.History.Of(next.UID).Running; began.Before(ended) {
		t.Errorf("the next job began %s before the GPUs were free", ended.Sub(began))
	}
	e.cordon(e.Nodes[0], false)
	e.cordon(e.Nodes[1], false)
	e.AgainSoon("sft", pod, time.Now())
}

// TestAnEndWellIsAnEnd evicts a program that says 0 when it is told to end: the job is done.
func TestAnEndWellIsAnEnd(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pod := e.Start(clustertest.Job{Name: "sft", GPUs: 1, Pod: map[string]string{sandbox.AnnotationStopExitCode: "0"}})[0]
	e.Evict(pod)
	e.Eventually("the job to be complete", func(context.Context) (bool, error) {
		return e.Status("sft").Succeeded == 1, nil
	})
}

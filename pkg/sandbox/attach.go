package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/util/retry"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"g8s.host/gpu-scheduler/pkg/conflict"
)

// serveAttach connects to the program of a container. A simulated container runs none until then: the program runs on this machine for the first
// client that attaches, and its end is the end of the pod.
func (s *Sandbox) serveAttach(w http.ResponseWriter, r *http.Request) {
	options, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	namespace, pod := r.PathValue("namespace"), r.PathValue("pod")
	command, err := s.containerCommand(r.Context(), namespace, pod, r.PathValue("container"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, &hostAttacher{sandbox: s, namespace: namespace, command: command}, pod, "", r.PathValue("container"),
		options, streamIdleTimeout, streamCreationTimeout, remotecommandconsts.SupportedStreamingProtocols)
}

// containerCommand is the command of a container that runs.
func (s *Sandbox) containerCommand(ctx context.Context, namespace, name, container string) ([]string, error) {
	client, err := s.newClient()
	if err != nil {
		return nil, err
	}
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, c := range pod.Spec.Containers {
		if command := slices.Concat(c.Command, c.Args); c.Name == container && len(command) > 0 && pod.Status.Phase == corev1.PodRunning {
			return command, nil
		}
	}
	return nil, fmt.Errorf("container %q of pod %s does not run, or has no command of its own", container, name)
}

// hostAttacher runs the program of one container.
type hostAttacher struct {
	sandbox   *Sandbox
	namespace string
	command   []string
}

// AttachContainer implements remotecommand.Attacher.
func (a *hostAttacher) AttachContainer(
	ctx context.Context, pod, _, container string, in io.Reader, out, errOut io.WriteCloser, tty bool,
	resize <-chan remotecommand.TerminalSize,
) error {
	err := hostExecutor{}.ExecInContainer(ctx, pod, "", container, a.command, in, out, errOut, tty, resize, 0)
	var ended utilexec.CodeExitError
	if err != nil && !errors.As(err, &ended) {
		return err
	}
	return a.sandbox.endPod(context.WithoutCancel(ctx), a.namespace, pod, int32(ended.Code))
}

// endPod records that the program of a pod has ended, as a kubelet does.
func (s *Sandbox) endPod(ctx context.Context, namespace, name string, code int32) error {
	client, err := s.newClient()
	if err != nil {
		return err
	}
	return conflict.Retry(retry.DefaultRetry, func() error {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ended := corev1.ContainerStateTerminated{ExitCode: code, Reason: "Completed", FinishedAt: metav1.Time{Time: time.Now()}}
		pod.Status.Phase = corev1.PodSucceeded
		if code != 0 {
			pod.Status.Phase, ended.Reason = corev1.PodFailed, "Error"
		}
		for i := range pod.Status.ContainerStatuses {
			status := &pod.Status.ContainerStatuses[i]
			if status.State.Running != nil {
				ended.StartedAt = status.State.Running.StartedAt
			}
			status.Ready, status.Started, status.State = false, new(bool), corev1.ContainerState{Terminated: &ended}
		}
		for i := range pod.Status.Conditions {
			if condition := &pod.Status.Conditions[i]; condition.Type == corev1.PodReady || condition.Type == corev1.ContainersReady {
				condition.Status, condition.Reason = corev1.ConditionFalse, "PodCompleted"
			}
		}
		_, err = client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

package recorder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/snapshot"
)

// errBroken means that reading ended before the output did.
var errBroken = errors.New("it broke off")

// keepOutput reads and stores the end of a container's output. If the connection breaks, it stores the output so far as incomplete. It does the same for
// output that is too long to be read to its end, without a retry, because a retry would have the same result.
func (o *Outputs) keepOutput(ctx context.Context, t task, container string) error {
	pod := t.pod
	if kept, err := o.Store.HasOutput(string(pod.UID), container); err != nil || kept {
		return err
	}
	options := &corev1.PodLogOptions{Container: container, Timestamps: true, TailLines: ptr.To[int64](tailLines), Follow: t.follow}
	limit := readLimit
	if t.follow {
		limit = listenTimeout(pod, o.Now())
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stream, err := o.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return fmt.Errorf("reading the output: %w", err)
	}
	tail := &ledger.Tail{Max: MaxTail}
	tooMuch, err := o.readTo(ctx, tail, stream, t, container)
	_ = stream.Close() // it was read as far as it could be
	text, cut := tail.Bytes()
	if len(text) == 0 {
		return err
	}
	name := pod.Labels[names.LabelJob]
	job, unknown := o.Store.JobAt(pod.Namespace, name, pod.CreationTimestamp.Time)
	return errors.Join(err, unknown, o.Store.PutOutput(ledger.Output{
		Namespace: pod.Namespace, Job: name, JobUID: job, Pod: pod.Name, PodUID: string(pod.UID), Container: container,
		Created: pod.CreationTimestamp.UTC(), Kept: o.Now().UTC().Truncate(time.Second), Truncated: cut,
		Incomplete: err != nil || tooMuch || !t.ended && !t.follow, Text: string(text),
	}, o.Budget))
}

// readTo reads a stream to its end, or reports that it is too long or broke off.
func (o *Outputs) readTo(ctx context.Context, tail io.Writer, stream io.Reader, t task, container string) (tooMuch bool, err error) {
	read, err := io.Copy(tail, io.LimitReader(stream, mostRead))
	switch {
	case ctx.Err() != nil && t.isOver():
		return false, nil // the pod had ended before
	case err != nil:
		return false, fmt.Errorf("reading the output: %w", err)
	case read == mostRead:
		o.giveUp(t.pod)
		return true, nil
	case t.follow && o.stillRuns(ctx, t, container):
		if ctx.Err() != nil && t.isOver() {
			return false, nil
		}
		return false, errBroken
	}
	return false, nil
}

// stillRuns reports whether a container whose stream has ended still runs: the API server also ends the stream when it loses the kubelet. A kubelet
// reports the end of a container a moment after that of its output.
func (o *Outputs) stillRuns(ctx context.Context, t task, container string) bool {
	select {
	case <-t.gone:
	case <-ctx.Done():
	case <-time.After(pause):
	}
	select {
	case <-t.gone:
		return false
	default:
	}
	now, err := snapshot.Read(ctx, o.Client, snapshot.Pods(snapshot.Scope{
		Namespace: t.pod.Namespace, Fields: fields.OneTermEqualSelector(metav1.ObjectNameField, t.pod.Name).String(),
	}))
	if err != nil {
		return true // assume that it still runs
	}
	for i := range now.Pods {
		if pod := &now.Pods[i]; pod.UID == t.pod.UID && !gpu.HasEnded(pod) {
			return isRunning(pod, container)
		}
	}
	return false
}

func isRunning(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
		return s.Name == container && s.State.Running != nil
	})
}

// listenTimeout returns how long a terminating pod is followed.
func listenTimeout(pod *corev1.Pod, now time.Time) time.Duration {
	left := time.Duration(0)
	if pod.DeletionTimestamp != nil {
		left = max(0, pod.DeletionTimestamp.Sub(now))
	}
	return min(left, time.Hour) + afterGrace
}

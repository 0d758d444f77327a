package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// connection is a connection to the main program of a running container, unlike exec, which starts another program beside it.
type connection struct {
	podTarget
	client kubernetes.Interface
	job    string
	where  containerRef
	// uid and restarts distinguish this run of the program from earlier and later ones.
	uid      types.UID
	restarts int32
	// stdin says that the program takes input, and tty that it has a terminal.
	stdin, tty bool
	// outcomeTimeout is how long the cluster may take to report how a program ended.
	outcomeTimeout time.Duration
	// earlierPrinted is the number of bytes printed of what the program wrote before the connection; negative if that output was not requested.
	earlierPrinted int64
	// silent says that nothing arrived over the connection.
	silent bool
}

const (
	// containerEndTimeout is longer than a kubelet takes to report that a container has ended.
	containerEndTimeout = 10 * time.Second
	endPollInterval     = 250 * time.Millisecond
	// earlierOutputLimit is the most that is printed of what a program wrote before the connection.
	earlierOutputLimit = 1 << 20
)

// prepareConnection prepares a connection to a container.
func (t *podTarget) prepareConnection(ctx context.Context, client kubernetes.Interface, job string, where containerRef) (*connection, error) {
	pod, err := client.CoreV1().Pods(where.namespace).Get(ctx, where.pod, metav1.GetOptions{})
	if err != nil {
		return nil, phrase.Errorf("reading pod %s: %w", where.pod, err)
	}
	c := &connection{podTarget: *t, client: client, job: job, where: where, uid: pod.UID, outcomeTimeout: containerEndTimeout, earlierPrinted: -1}
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if container.Name == where.container {
			c.stdin, c.tty = container.Stdin, container.TTY
		}
	}
	c.restarts = c.containerStatus(pod).RestartCount
	return c, nil
}

// containerStatus returns the container's status in the pod. It is zero if the container was not started.
func (c *connection) containerStatus(pod *corev1.Pod) corev1.ContainerStatus {
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if status.Name == c.where.container {
			return status
		}
	}
	return corev1.ContainerStatus{}
}

// runUntilEnd relays the program's output and the user's input until the program or the connection ends. It returns how the program ended, as
// [commandOutcome] does, or a [connectionLostError] if the program may still run.
func (c *connection) runUntilEnd(ctx context.Context) error {
	err := c.relayStreams(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isA[*usageError](err):
		return err
	case errors.Is(err, errOutputClosed):
		return &outcomeError{code: exitNotFinished, text: phrase.FromError(err)}
	}
	err = c.awaitOutcome(ctx, err)
	if c.silent && c.earlierPrinted >= 0 && !isA[*connectionLostError](err) && ctx.Err() == nil {
		return cmp.Or(c.printEarlierOutput(ctx), err) // it ended before the connection was established
	}
	return err
}

// errOutputClosed says that the program's output cannot be passed on because the reader has closed the stream.
var errOutputClosed = phrase.Errorf("nobody reads any more what the program prints")

func (c *connection) relayStreams(ctx context.Context) error {
	streams := c.factory.IO
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	out, errOut := &closableWriter{out: rawOutput(streams.Out), end: end}, &closableWriter{out: rawOutput(streams.ErrOut), end: end}
	defer out.close()
	defer errOut.close()
	r := remoteCommand{out: out, errOut: errOut, tty: c.tty}
	if c.stdin {
		r.in = streams.In
	}
	if c.stdin && c.tty && streams.InIsTerminal {
		terminal, giveBack, err := takeTerminal(streams.In)
		if err != nil {
			return err
		}
		defer giveBack()
		terminal.forceRedraw = true
		r.sizes = terminal
	}
	err := c.streamCommand(ctx, c.client, c.where, r, "attach", &corev1.PodAttachOptions{
		Container: c.where.container, Stdin: c.stdin, Stdout: true, Stderr: !c.tty, TTY: c.tty,
	})
	c.silent = !out.used.Load() && !errOut.used.Load()
	if cause := context.Cause(ctx); errors.Is(cause, errOutputClosed) {
		return cause
	}
	return err
}

// closableWriter is a stream that can be closed. client-go continues to copy for a moment after a connection is abandoned, and that output must not
// mix with what is printed next. Closing does not wait for a write, which may block on the reader.
type closableWriter struct {
	out io.Writer
	// end cancels the connection when the reader has closed the stream.
	end          context.CancelCauseFunc
	used, closed atomic.Bool
}

// Write implements io.Writer.
func (g *closableWriter) Write(data []byte) (int, error) {
	if g.closed.Load() {
		return 0, io.ErrClosedPipe
	}
	g.used.Store(true)
	n, err := g.out.Write(data)
	if err != nil {
		g.end(errOutputClosed)
	}
	return n, err //nolint:wrapcheck // the writer's own error
}

func (g *closableWriter) close() { g.closed.Store(true) }

// awaitOutcome finds out how the program ended after the connection has ended, possibly before the cluster knows. The stream does not tell: it ends
// in the same way whether the program or the network failed.
func (c *connection) awaitOutcome(ctx context.Context, cause error) error {
	stop := startProgress(c.factory.IO, phrase.Textf("Waiting to hear how it ended"))
	defer stop()
	looking, cancel := context.WithTimeout(ctx, c.outcomeTimeout)
	defer cancel()
	for {
		over, err := c.checkEnded(looking)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case over:
			return err
		case apierrors.IsForbidden(cause), apierrors.IsUnauthorized(cause):
			return phrase.Errorf("attaching to pod %s: %w", c.where.pod, cause)
		case isSimulated(cause):
			return remoteError(c.where.pod, cause)
		}
		select {
		case <-looking.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return &connectionLostError{namespace: c.where.namespace, job: c.job, cause: cmp.Or(cause, err)}
		case <-time.After(endPollInterval):
		}
	}
}

// checkEnded checks whether the run of the program is over, and returns how it ended: an error that says so, or nil on success. If the run is not
// over, the error says why its state is unknown.
func (c *connection) checkEnded(ctx context.Context) (over bool, err error) {
	pod, err := c.client.CoreV1().Pods(c.where.namespace).Get(ctx, c.where.pod, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), err == nil && pod.UID != c.uid:
		return true, &outcomeError{code: exitNotFinished, text: phrase.Textf("pod %s is gone, and its program with it", c.where.pod)}
	case err != nil:
		return false, err
	}
	status := c.containerStatus(pod)
	ended := status.State.Terminated
	if status.State.Waiting != nil || status.RestartCount > c.restarts {
		ended = status.LastTerminationState.Terminated
	}
	if ended == nil {
		return false, nil
	}
	row := inventory.BuildPods([]corev1.Pod{*pod})[0]
	switch {
	case row.WasDisrupted():
		return true, &outcomeError{code: exitNotFinished, text: phrase.Textf("pod %s had to end: %s", c.where.pod, reasonText(row.Trouble))}
	case pod.DeletionTimestamp != nil:
		return true, &outcomeError{
			code: exitNotFinished, text: phrase.Textf("pod %s was told to end: its job was deleted or paused, or had its time", c.where.pod),
		}
	}
	return true, commandOutcome(int(ended.ExitCode))
}

// printEarlierOutput prints what the program wrote before the connection, minus what was already printed. There may be nothing yet, and failing to
// read it does not stop the connection. The error says that the reader has closed the stream.
func (c *connection) printEarlierOutput(ctx context.Context) error {
	c.earlierPrinted = max(0, c.earlierPrinted)
	limit := c.earlierPrinted + earlierOutputLimit
	options := &corev1.PodLogOptions{Container: c.where.container, LimitBytes: &limit}
	output, err := c.client.CoreV1().Pods(c.where.namespace).GetLogs(c.where.pod, options).Stream(ctx)
	if err != nil {
		return nil //nolint:nilerr // the log has it
	}
	reading, end := context.WithCancelCause(ctx)
	out := &closableWriter{out: rawOutput(c.factory.IO.Out), end: end}
	defer out.close()
	go func() {
		defer output.Close() //nolint:errcheck // opened for reading only
		defer end(nil)
		if _, err := io.CopyN(io.Discard, output, c.earlierPrinted); err != nil {
			return
		}
		more, _ := io.Copy(out, output)
		c.earlierPrinted += more
	}()
	<-reading.Done()
	if cause := context.Cause(reading); errors.Is(cause, errOutputClosed) {
		return &outcomeError{code: exitNotFinished, text: phrase.FromError(cause)}
	}
	return nil
}

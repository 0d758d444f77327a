package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"g8s.host/gpu-scheduler/pkg/inventory"
	"g8s.host/gpu-scheduler/pkg/phrase"
)

// podTarget is a running container of a job, as the flags select it.
type podTarget struct {
	factory        *Factory
	pod, container string
	rank           int
}

func (t *podTarget) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&t.pod, "pod", "", "The pod to use (default: rank 0, or the oldest one that runs)")
	flags.IntVar(&t.rank, "rank", -1, "The rank to use of a job of several nodes")
	flags.StringVarP(&t.container, "container", "c", "", "The container to use of the pod (default: its first)")
}

// containerRef identifies a running container.
type containerRef struct{ namespace, pod, container string }

// findContainer returns the container of a job that the flags select, or says why none runs.
func (t *podTarget) findContainer(ctx context.Context, client kubernetes.Interface, name string) (containerRef, error) {
	namespace, err := t.factory.currentNamespace()
	if err != nil {
		return containerRef{}, err
	}
	job, err := inventory.NewReader(client).Job(ctx, namespace, jobName(name))
	if err != nil {
		return containerRef{}, err
	}
	found, err := t.chooseContainer(job)
	if err != nil && len(runningPods(job)) == 0 {
		if report, failed := diagnoseJob(ctx, client, job, t.factory); failed == nil {
			return containerRef{}, phrase.Errorf("no pod of job %s runs: it is %s%s\n%s", job.Name, report.Status, headlineText(report, t.factory.outputLanguage()), nextStepText(job))
		}
	}
	return found, err
}

// nextStepText says what to do with a job that has no running pod.
func nextStepText(job inventory.Job) phrase.Text {
	if job.Finished != nil {
		return phrase.Textf("See what it printed: gpuctl logs %s -n %s", job.Name, job.Namespace)
	}
	return phrase.Textf("Wait for it: gpuctl wait %s -n %s --for=running", job.Name, job.Namespace)
}

// chooseContainer selects the container among the running pods of a job.
func (t *podTarget) chooseContainer(job inventory.Job) (containerRef, error) {
	candidates := slices.DeleteFunc(runningPods(job), func(pod inventory.Pod) bool {
		return t.pod != "" && pod.Name != t.pod || t.rank >= 0 && (pod.Rank == nil || *pod.Rank != t.rank)
	})
	if len(candidates) == 0 {
		return containerRef{}, t.noSuchPod(job)
	}
	pod := candidates[0]
	for _, container := range pod.Containers {
		if container.Running && (t.container == container.Name || t.container == "" && !container.Init) {
			return containerRef{namespace: job.Namespace, pod: pod.Name, container: container.Name}, nil
		}
	}
	return containerRef{}, usageErrorf("no container %q runs in pod %s", t.container, pod.Name)
}

// noSuchPod reports that no running pod matches the flags. If pods run, the flags are wrong.
func (t *podTarget) noSuchPod(job inventory.Job) error {
	names := strings.Join(collectNames(runningPods(job), func(p inventory.Pod) string { return p.Name }), ", ")
	if names == "" {
		return phrase.Errorf("no pod of job %s runs\nSee them all: gpuctl describe job %s", job.Name, job.Name)
	}
	return usageErrorf("job %s has no such pod that runs; those that do are: %s\nSee them all: gpuctl describe job %s", job.Name, names, job.Name)
}

// runningPods returns the running pods of a job, rank 0 first, then the oldest.
func runningPods(job inventory.Job) []inventory.Pod {
	out := slices.DeleteFunc(slices.Clone(job.Pods), func(pod inventory.Pod) bool {
		return pod.Phase != string(corev1.PodRunning) || !slices.ContainsFunc(pod.Containers, func(c inventory.ContainerState) bool { return c.Running })
	})
	slices.SortStableFunc(out, func(a, b inventory.Pod) int {
		rank := func(pod inventory.Pod) int {
			if pod.Rank == nil {
				return 0
			}
			return *pod.Rank
		}
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Created.Compare(b.Created))
	})
	return out
}

// remoteCommand is a command to run in a container.
type remoteCommand struct {
	command     []string
	in          io.Reader
	out, errOut io.Writer
	// tty gives the command a terminal; sizes reports its size.
	tty   bool
	sizes remotecommand.TerminalSizeQueue
}

// executeCommand runs a command in a container. An exit code other than 0 is an [outcomeError] with that code.
func (t *podTarget) executeCommand(ctx context.Context, client kubernetes.Interface, where containerRef, c remoteCommand) error {
	err := t.streamCommand(ctx, client, where, c, "exec", &corev1.PodExecOptions{
		Container: where.container, Command: c.command,
		Stdin: c.in != nil, Stdout: true, Stderr: !c.tty, TTY: c.tty,
	})
	var ended exec.CodeExitError
	if errors.As(err, &ended) {
		return commandOutcome(ended.Code)
	}
	return remoteError(where.pod, err)
}

// commandOutcome returns nil for a command that succeeded, else an [outcomeError] with its exit code.
func commandOutcome(code int) error {
	if code == exitOK {
		return nil
	}
	return &outcomeError{code: code, text: phrase.Textf("the command ended with exit code %d", code)}
}

// streamCommand connects the streams of a command to a subresource of a pod, until the command ends.
func (t *podTarget) streamCommand(
	ctx context.Context, client kubernetes.Interface, where containerRef, c remoteCommand, subresource string, asked runtime.Object,
) error {
	config, err := t.factory.config()
	if err != nil {
		return err
	}
	request := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(where.namespace).Name(where.pod).
		SubResource(subresource).VersionedParams(asked, scheme.ParameterCodec)
	executor, err := newExecutor(config, request.URL())
	if err != nil {
		return phrase.Errorf("connecting to pod %s: %w", where.pod, err)
	}
	options := remotecommand.StreamOptions{Stdin: c.in, Stdout: c.out, Stderr: c.errOut, Tty: c.tty, TerminalSizeQueue: c.sizes}
	if c.tty {
		options.Stderr = nil
	}
	return executor.StreamWithContext(ctx, options)
}

// remoteError explains why a command could not be run. For a sandbox's simulated node, it also says what to do.
func remoteError(pod string, err error) error {
	switch {
	case err == nil:
		return nil
	case isSimulated(err):
		return phrase.Errorf("pod %s is on a simulated node, which runs no commands\n"+
			"Run them on your own machine in its stead: gpu-sandbox down, then gpu-sandbox up --host-exec", pod)
	}
	return phrase.Errorf("running a command in pod %s: %w", pod, err)
}

// isSimulated reports whether an error is kwok's answer, in place of a kubelet's, that it runs no commands.
func isSimulated(err error) bool {
	return err != nil && slices.ContainsFunc([]string{"no exec found for container", "no attaches found for container"}, func(text string) bool {
		return strings.Contains(err.Error(), text)
	})
}

// newExecutor uses WebSocket, and falls back to SPDY if the server does not support it.
func newExecutor(config *rest.Config, address *url.URL) (remotecommand.Executor, error) {
	spdy, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, address)
	if err != nil {
		return nil, err
	}
	socket, err := remotecommand.NewWebSocketExecutor(config, http.MethodGet, address.String())
	if err != nil {
		return nil, err
	}
	e := &executor{}
	e.Executor, err = remotecommand.NewFallbackExecutor(socket, spdy, func(err error) bool {
		var upgrade *httpstream.UpgradeFailureError
		if errors.As(err, &upgrade) {
			_ = errors.As(upgrade.Cause, &e.refused)
		}
		return isNoWebSocket(err)
	})
	return e, err
}

// executor returns a refusal with the API server's status. After a refusal client-go also tries SPDY, since some roles allow only that, and then
// keeps only the message.
type executor struct {
	remotecommand.Executor
	// refused is the error with which WebSocket was refused, nil if it was not.
	refused *apierrors.StatusError
}

// StreamWithContext implements remotecommand.Executor.
func (e *executor) StreamWithContext(ctx context.Context, options remotecommand.StreamOptions) error {
	err := e.Executor.StreamWithContext(ctx, options)
	if err != nil && e.refused != nil && e.refused.ErrStatus.Message != "" && strings.Contains(err.Error(), e.refused.ErrStatus.Message) {
		return e.refused
	}
	return err //nolint:wrapcheck // client-go's error, unchanged
}

func isNoWebSocket(err error) bool {
	return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
}

// terminal is the user's terminal while a remote command uses it.
type terminal struct {
	fd   int
	done chan struct{}
	last remotecommand.TerminalSize
	// forceRedraw reports a different size first, so that a running shell redraws its prompt.
	forceRedraw bool
}

// takeTerminal puts the terminal behind in into raw mode, which passes on every key. The returned function restores it.
func takeTerminal(in io.Reader) (*terminal, func(), error) {
	file, ok := in.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil, nil, usageErrorf("standard input is no terminal: leave out -t, or use exec")
	}
	fd := int(file.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, nil, phrase.Errorf("preparing the terminal: %w", err)
	}
	t := &terminal{fd: fd, done: make(chan struct{})}
	return t, func() {
		close(t.done)
		_ = term.Restore(fd, before) // nothing else can be done
	}, nil
}

// sizePoll is the interval at which the terminal size is checked.
const sizePoll = 250 * time.Millisecond

// Next implements remotecommand.TerminalSizeQueue: it returns when the size has changed, and nil at the end.
func (t *terminal) Next() *remotecommand.TerminalSize {
	for {
		width, height, err := term.GetSize(t.fd)
		size := remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}
		if err == nil && size != t.last {
			if t.forceRedraw {
				t.forceRedraw = false
				size = remotecommand.TerminalSize{Width: size.Width + 1, Height: size.Height + 1}
			}
			t.last = size
			return &size
		}
		select {
		case <-t.done:
			return nil
		case <-time.After(sizePoll):
		}
	}
}

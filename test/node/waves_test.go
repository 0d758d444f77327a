package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode/probe"
	"g8s.host/gpu-scheduler/test/bounds"
)

const (
	// workers is how many pods there are at a time at the most, and askedFor how many cards they ask for together: twice as many as there
	// are, so that some always wait for cards, and no more, so that smaller ones are not before a large one for ever. Who asked first
	// is let in first.
	workers  = 8
	askedFor = 16
	// queueing is how long a pod may wait to be bound: for cards, while others have them.
	queueing = 3 * time.Minute
)

// patience is how long a container may take from the moment at which its pod is bound.
var patience = bounds.Of(30 * time.Second)

// wave starts pods of all shapes until so many containers have been looked at from inside.
type wave struct {
	prefix string
	want   int
	// outages says that kubelet may refuse pods for good, because the agent is away while they arrive. It is no fault then:
	// their controllers would make new ones.
	outages bool
	// extra is what a container may take longer, when something is stopped.
	extra time.Duration

	// room has a place for each card that is asked for.
	room *semaphore.Weighted

	mu       sync.Mutex
	started  int
	made     int
	faults   []string
	refused  int
	took     []time.Duration // from bound to the last report, for each pod
	left     []time.Duration // from its deletion until it was gone
	shapeRNG *rand.Rand
}

// run returns when the wave is over.
func (w *wave) run(ctx context.Context) {
	w.room = semaphore.NewWeighted(askedFor)
	w.shapeRNG = rand.New(rand.NewPCG(*seed, 0))
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for name, s, ok := w.next(); ok && ctx.Err() == nil; name, s, ok = w.next() {
				if err := w.one(ctx, name, s); err != nil && ctx.Err() == nil {
					w.fault("%s: %v", name, err)
				}
			}
		})
	}
	group.Wait()
}

// more has the next run start so many containers more.
func (w *wave) more(containers int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want = w.started + containers
}

func (w *wave) next() (name string, s shape, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started >= w.want || len(w.faults) > 20 {
		return "", shape{}, false
	}
	w.made++
	return fmt.Sprintf("%s-%d", w.prefix, w.made), pick(w.shapeRNG), true
}

func (w *wave) fault(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// one runs a pod from its creation to its end.
func (w *wave) one(ctx context.Context, name string, s shape) error {
	if err := w.room.Acquire(ctx, int64(s.cards())); err != nil {
		return err
	}
	defer w.room.Release(int64(s.cards()))
	if err := create(ctx, s.pod(name)); err != nil {
		return err
	}
	err := w.look(ctx, name, s)
	began := time.Now()
	err = errors.Join(err, remove(ctx, name, s.force))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = append(w.left, time.Since(began))
	return err
}

// look compares what the pod's containers see with what the scheduler chose.
func (w *wave) look(ctx context.Context, name string, s shape) error {
	pod, err := bound(ctx, name)
	if err != nil {
		return err
	}
	began := time.Now()
	assigned, err := assignment(pod)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience+w.extra)
	defer cancel()
	for i := range s.parts {
		got, err := w.await(ctx, name, partName(i), s.starts(i))
		if errors.Is(err, errRefused) && w.outages {
			w.mu.Lock()
			w.refused++
			w.mu.Unlock()
			return nil
		}
		if err != nil {
			cause := why(name)
			return errors.Join(err, cause, kubeletOn(cause.Error()))
		}
		for _, report := range got {
			for _, fault := range wrong(assigned, partName(i), report) {
				w.fault("%s container %s: %s", name, partName(i), fault)
			}
		}
		w.mu.Lock()
		w.started += len(got)
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.took = append(w.took, time.Since(began))
	w.mu.Unlock()
	return nil
}

// errRefused tells that kubelet would not have a pod that was bound to it.
var errRefused = errors.New("kubelet refused the pod")

// await waits for a container's reports, or until kubelet has refused the pod.
func (w *wave) await(ctx context.Context, pod, container string, starts int) (got []probe.Report, err error) {
	for {
		short, cancel := context.WithTimeout(ctx, 2*time.Second)
		got, err = inside.await(short, reportName(pod, container), starts)
		cancel()
		if err == nil {
			return got, nil
		}
		now, missing := client.CoreV1().Pods(namespace).Get(context.WithoutCancel(ctx), pod, metav1.GetOptions{})
		if missing == nil && now.Status.Phase == corev1.PodFailed && now.Status.Reason == "UnexpectedAdmissionError" {
			return nil, fmt.Errorf("%w: %s", errRefused, now.Status.Message)
		}
		if ctx.Err() != nil {
			return nil, err
		}
	}
}

func create(ctx context.Context, pod *corev1.Pod) error {
	_, err := client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// isRunning says whether a pod's containers all run.
func isRunning(ctx context.Context, name string) bool {
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	return !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running == nil })
}

// bound waits until the scheduler has placed a pod.
func bound(ctx context.Context, name string) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, queueing)
	defer cancel()
	for {
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName != "" {
			return pod, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("waiting for the scheduler: %w", ctx.Err()), why(name))
		case <-time.After(2 * pollEvery):
		}
	}
}

// remove deletes a pod, and waits until it is gone: its cards are free for the scheduler then. By force it is gone at once,
// while its containers still run.
func remove(ctx context.Context, name string, force bool) error {
	options := metav1.DeleteOptions{}
	if force {
		options.GracePeriodSeconds = ptr.To(int64(0))
	}
	pods := client.CoreV1().Pods(namespace)
	if err := pods.Delete(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, queueing)
	defer cancel()
	for {
		_, err := pods.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("waiting for pod %s to go: %w", name, ctx.Err()), why(name))
		case <-time.After(2 * pollEvery):
		}
	}
}

// why says all that the cluster tells about a pod that does not come on.
func why(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	return whyNot(pod)
}

func whyNot(pod *corev1.Pod) error {
	text := fmt.Sprintf("pod %s is %s %s %s", pod.Name, pod.Status.Phase, pod.Status.Reason, pod.Status.Message)
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			text += fmt.Sprintf("\n  %s: %s %s", condition.Type, condition.Reason, condition.Message)
		}
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		text += fmt.Sprintf("\n  container %s: %s", status.Name, status.State.String())
	}
	return errors.New(text)
}

var podPattern = regexp.MustCompile(`\b(?:wave|outage|manifest|stopped)-[-a-z0-9]+\b`)

// kubeletOn returns the last lines of kubelet's log about the pods that a text speaks of.
func kubeletOn(text string) error {
	data, err := os.ReadFile(cluster.FindProcess(realnode.KubeletName).LogPath())
	if err != nil {
		return err
	}
	var found []string
	for line := range strings.Lines(string(data)) {
		names := podPattern.FindAllString(line, -1)
		if slices.ContainsFunc(names, func(name string) bool { return strings.Contains(text, name) }) {
			found = append(found, line)
		}
	}
	const most = 40
	return errors.New("kubelet said:\n" + strings.Join(found[max(0, len(found)-most):], ""))
}

// report tells how the wave went, and fails the test for every fault.
func (w *wave) report(t *testing.T, took time.Duration) {
	t.Helper()
	for _, fault := range w.faults {
		t.Error(fault)
	}
	t.Logf("%d starts of containers of %d pods in %s, %d pods refused by kubelet; a pod took %s (median), %s (99 %%), %s (longest) from bound to all "+
		"started, and %s (median), %s (longest) to go; %.2f starts a second", w.started, w.made, took.Round(time.Second), w.refused,
		share(w.took, .5), share(w.took, .99), share(w.took, 1), share(w.left, .5), share(w.left, 1), float64(w.started)/max(took.Seconds(), 1))
}

// share is the time within which a share of some was done.
func share(times []time.Duration, of float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(times))[int(of*float64(len(times)-1))].Round(10 * time.Millisecond)
}

// TestContainersGetTheCardsThatWereChosen starts pods of all shapes on a full node and looks from inside.
func TestContainersGetTheCardsThatWereChosen(t *testing.T) {
	needNode(t)
	stop := watchAudits(t.Context())
	w := &wave{prefix: "wave", want: *containers}
	began := time.Now()
	w.run(t.Context())
	w.report(t, time.Since(began))
	seen := stop()
	t.Logf("%v audits meanwhile", seen.count)
	if seen.worst != 0 || seen.failure != nil {
		t.Errorf("kubelet and the agent's records differed in %v places, error %v", seen.worst, seen.failure)
	}
	awaitAudits(t)
	if count := differences(t); count != 0 {
		t.Errorf("kubelet and the agent's records differ in %v places after all pods are gone", count)
	}
}

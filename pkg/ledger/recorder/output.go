package recorder

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/lru"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fair"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

const (
	// MaxTail is how much output is kept per container.
	MaxTail = 1 << 20
	// tailLines is how many lines are requested from the kubelet, and mostRead how many bytes are read of them: lines may be long.
	tailLines = 20000
	mostRead  = 64 << 20
	// maxReaders is how many ended pods are read at a time, readersPerNamespace how many of them per namespace, and maxWaiting how many more may wait.
	maxReaders          = 8
	readersPerNamespace = 2
	maxWaiting          = 4096
	// maxListeners is how many terminating pods are followed, and listenersPerNamespace how many of them per namespace: a pod may take an hour to end.
	// For others, the output so far is kept.
	maxListeners          = 64
	listenersPerNamespace = 16
	// readLimit bounds one read of a pod's output: a kubelet may accept a connection and never answer.
	readLimit = time.Minute
	// outputDelay is how long the output of a deleted pod may still be in transit.
	outputDelay = 2 * time.Second
	// tries is how often a failed read is attempted, and pause the delay between attempts.
	tries = 3
	pause = 2 * time.Second
	// waitingPerNamespace bounds the waiting pods of one namespace, so that those of others are read, too.
	waitingPerNamespace = maxWaiting / 4
	// afterGrace is how long a terminating pod is followed beyond its grace period.
	afterGrace = time.Minute
	// maxContainers is how many containers per pod are kept.
	maxContainers = 8
)

// Outputs keeps the end of the output of jobs. An ended pod is read at once. A terminating pod is followed until it is gone: it may print during its
// grace period, and its output is deleted with it.
type Outputs struct {
	Client kubernetes.Interface
	Store  *store.Store
	Log    *slog.Logger
	Now    func() time.Time
	// Budget is the maximum number of bytes kept.
	Budget int64

	queue chan task
	mu    sync.Mutex
	// busy are the pods that are being read or wait for it, by UID. listening counts the followed pods per namespace, and in total under "".
	busy      map[string]*departure
	listening map[string]int
	// held counts the busy pods of each namespace.
	held map[string]int
	// history is what was read of each pod, by UID.
	history *lru.Cache
}

// task is a pod to be read.
type task struct {
	pod *corev1.Pod
	// follow reads the output until its end.
	follow bool
	*departure
	// ended says that no more output will come.
	ended bool
}

// departure describes the deletion of a pod.
type departure struct {
	// gone is closed when the pod is deleted. over says that its containers had ended by then, according to the kubelet.
	gone chan struct{}
	over bool
}

// isOver reports whether a pod is deleted and has no more output.
func (p *departure) isOver() bool {
	select {
	case <-p.gone:
		return p.over
	default:
		return false
	}
}

// NewOutputs returns an Outputs that keeps output in a store.
func NewOutputs(client kubernetes.Interface, s *store.Store, log *slog.Logger, budget int64) *Outputs {
	return &Outputs{
		Client: client, Store: s, Log: log, Now: time.Now, Budget: budget,
		queue: make(chan task, maxWaiting), busy: map[string]*departure{}, listening: map[string]int{}, held: map[string]int{},
		history: lru.New(rememberedPods),
	}
}

// PodEnding queues a pod that is terminating or has ended. It never blocks, because the ledger is being written.
func (o *Outputs) PodEnding(pod *corev1.Pod) {
	if pod.Labels[names.LabelJob] == "" || !hasStarted(pod) {
		return
	}
	next, ok := o.startReading(pod)
	if !ok {
		return
	}
	select {
	case o.queue <- next:
	default:
		o.finishReading(next)
		o.Log.Warn("Too many pods end at once to keep the output of all", "namespace", pod.Namespace, "pod", pod.Name)
	}
}

func hasStarted(pod *corev1.Pod) bool {
	for i := range pod.Status.ContainerStatuses {
		state := &pod.Status.ContainerStatuses[i].State
		if state.Running != nil || state.Terminated != nil {
			return true
		}
	}
	return false
}

// startReading registers a pod for reading; false if it is registered already, or need not be read.
func (o *Outputs) startReading(pod *corev1.Pod) (task, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := task{pod: trimPod(pod), ended: gpu.HasEnded(pod)}
	next.follow = !next.ended && o.listening[""] < maxListeners && o.listening[pod.Namespace] < listenersPerNamespace
	if o.busy[string(pod.UID)] != nil {
		return next, false
	}
	before := o.historyOf(string(pod.UID))
	if !before.shouldRead(next.ended, next.follow) {
		return next, false
	}
	if o.held[pod.Namespace] >= waitingPerNamespace || len(o.busy) >= maxWaiting {
		o.Log.Warn("Too many pods end at once to keep the output of all", "namespace", pod.Namespace, "pod", pod.Name)
		return next, false
	}
	o.history.Add(string(pod.UID), before.withReading(next.ended, next.follow))
	o.held[pod.Namespace]++
	next.departure = &departure{gone: make(chan struct{})}
	o.busy[string(pod.UID)] = next.departure
	o.countListener(&next, 1)
	return next, true
}

// trimPod returns the needed fields of a pod: thousands may wait, each as large as an object may be.
func trimPod(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: map[string]string{names.LabelJob: pod.Labels[names.LabelJob]},
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
	}}
	for i := range pod.Spec.Containers[:min(len(pod.Spec.Containers), maxContainers)] {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: strings.Clone(pod.Spec.Containers[i].Name)})
	}
	return out
}

// PodGone reports that a pod is deleted, which ends the following of its output.
func (o *Outputs) PodGone(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	leaving := o.busy[string(pod.UID)]
	if leaving == nil {
		return
	}
	select {
	case <-leaving.gone: // reported before
	default:
		leaving.over = gpu.HasEnded(pod) || !slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool {
			return s.State.Terminated == nil
		})
		close(leaving.gone)
	}
}

func (o *Outputs) finishReading(done task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.busy, string(done.pod.UID))
	if o.held[done.pod.Namespace]--; o.held[done.pod.Namespace] == 0 {
		delete(o.held, done.pod.Namespace)
	}
	o.countListener(&done, -1)
}

// countListener counts followed pods.
func (o *Outputs) countListener(t *task, by int) {
	if !t.follow {
		return
	}
	for _, of := range []string{"", t.pod.Namespace} {
		if o.listening[of] += by; o.listening[of] == 0 {
			delete(o.listening, of)
		}
	}
}

// Run reads queued pods until ctx ends. Namespaces alternate.
func (o *Outputs) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	places := fair.New(fair.Limits{Total: maxReaders, Each: readersPerNamespace, Waiting: waitingPerNamespace})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case next := <-o.queue:
			group.Go(func() {
				defer o.finishReading(next)
				if !next.follow { // followed pods are counted already
					leave, err := places.Enter(ctx, next.pod.Namespace, 1)
					if err != nil {
						return // the waiting pods of a namespace are bounded, so only ctx can have ended
					}
					defer leave()
				}
				o.readPod(ctx, next)
			})
		}
	}
}

// readPod keeps the output of the containers of a pod.
func (o *Outputs) readPod(ctx context.Context, t task) {
	pod := t.pod
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if waitFor(ctx, t.gone) && waitFor(ctx, time.After(outputDelay)) { // the output may still be in transit
			cancel()
		}
	}()
	for i := range pod.Spec.Containers {
		container := pod.Spec.Containers[i].Name
		if err := o.tryToKeep(ctx, t, container); err != nil && ctx.Err() == nil {
			o.Log.WarnContext(ctx, "The output of a container is not kept, or not to its end", "namespace", pod.Namespace, "pod", pod.Name, "container", container, "error", err)
		}
	}
}

// waitFor waits for a channel and reports whether it was ready before the context ended.
func waitFor[T any](ctx context.Context, until <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case <-until:
		return true
	}
}

// tryToKeep retries keepOutput if the kubelet does not answer or its answer breaks off.
func (o *Outputs) tryToKeep(ctx context.Context, t task, container string) (err error) {
	for range tries {
		if err = o.keepOutput(ctx, t, container); err == nil || apierrors.IsNotFound(err) || !waitFor(ctx, time.After(pause)) {
			break
		}
	}
	return err
}

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
	// readers is how many ended pods are read at a time, readersPerNamespace how many of them per namespace, and maxWaiting how many more may wait.
	readers = 8
	each    = 2
	waiting = 4096
	// listeners is how many terminating pods are followed, and listenersPerNamespace how many of them per namespace: a pod may take an hour to end.
	// For others, the output so far is kept.
	listeners   = 64
	ofNamespace = 16
	// readLimit bounds one read of a pod's output: a kubelet may accept a connection and never answer.
	readLimit = time.Minute
	// lastWords is how long the output of a deleted pod may still be in transit.
	lastWords = 2 * time.Second
	// tries is how often a failed read is attempted, and pause the delay between attempts.
	tries = 3
	pause = 2 * time.Second
	// share bounds the waiting pods of one namespace, so that those of others are read, too.
	share = waiting / 4
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
	busy      map[string]*parting
	listening map[string]int
	// held counts the busy pods of each namespace.
	held map[string]int
	// past is what was read of each pod, by UID.
	past *lru.Cache
}

// task is a pod to be read.
type task struct {
	pod *corev1.Pod
	// follow reads the output until its end.
	follow bool
	*parting
	// ended says that no more output will come.
	ended bool
}

// parting describes the deletion of a pod.
type parting struct {
	// gone is closed when the pod is deleted. over says that its containers had ended by then, according to the kubelet.
	gone chan struct{}
	over bool
}

// isOver reports whether a pod is deleted and has no more output.
func (p *parting) isOver() bool {
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
		queue: make(chan task, waiting), busy: map[string]*parting{}, listening: map[string]int{}, held: map[string]int{},
		past: lru.New(remembered),
	}
}

// Ending queues a pod that is terminating or has ended. It never blocks, because the ledger is being written.
func (o *Outputs) Ending(pod *corev1.Pod) {
	if pod.Labels[names.LabelJob] == "" || !hasStarted(pod) {
		return
	}
	next, ok := o.take(pod)
	if !ok {
		return
	}
	select {
	case o.queue <- next:
	default:
		o.leave(next)
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

// take registers a pod for reading; false if it is registered already, or need not be read.
func (o *Outputs) take(pod *corev1.Pod) (task, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := task{pod: lean(pod), ended: gpu.HasEnded(pod)}
	next.follow = !next.ended && o.listening[""] < listeners && o.listening[pod.Namespace] < ofNamespace
	if o.busy[string(pod.UID)] != nil {
		return next, false
	}
	before := o.pastOf(string(pod.UID))
	if !before.again(next.ended, next.follow) {
		return next, false
	}
	if o.held[pod.Namespace] >= share || len(o.busy) >= waiting {
		o.Log.Warn("Too many pods end at once to keep the output of all", "namespace", pod.Namespace, "pod", pod.Name)
		return next, false
	}
	o.past.Add(string(pod.UID), before.with(next.ended, next.follow))
	o.held[pod.Namespace]++
	next.parting = &parting{gone: make(chan struct{})}
	o.busy[string(pod.UID)] = next.parting
	o.listen(&next, 1)
	return next, true
}

// lean returns the needed fields of a pod: thousands may wait, each as large as an object may be.
func lean(pod *corev1.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Labels: map[string]string{names.LabelJob: pod.Labels[names.LabelJob]},
		CreationTimestamp: pod.CreationTimestamp, DeletionTimestamp: pod.DeletionTimestamp,
	}}
	for i := range pod.Spec.Containers[:min(len(pod.Spec.Containers), maxContainers)] {
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: strings.Clone(pod.Spec.Containers[i].Name)})
	}
	return out
}

// Gone reports that a pod is deleted, which ends the following of its output.
func (o *Outputs) Gone(pod *corev1.Pod) {
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

func (o *Outputs) leave(done task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.busy, string(done.pod.UID))
	if o.held[done.pod.Namespace]--; o.held[done.pod.Namespace] == 0 {
		delete(o.held, done.pod.Namespace)
	}
	o.listen(&done, -1)
}

// listen counts followed pods.
func (o *Outputs) listen(t *task, by int) {
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
	places := fair.New(fair.Limits{Total: readers, Each: each, Waiting: share})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case next := <-o.queue:
			group.Go(func() {
				defer o.leave(next)
				if !next.follow { // followed pods are counted already
					leave, err := places.Enter(ctx, next.pod.Namespace, 1)
					if err != nil {
						return // the waiting pods of a namespace are bounded, so only ctx can have ended
					}
					defer leave()
				}
				o.read(ctx, next)
			})
		}
	}
}

// read keeps the output of the containers of a pod.
func (o *Outputs) read(ctx context.Context, t task) {
	pod := t.pod
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		if waited(ctx, t.gone) && waited(ctx, time.After(lastWords)) { // the output may still be in transit
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

// waited waits for a channel and reports whether it was ready before the context ended.
func waited[T any](ctx context.Context, until <-chan T) bool {
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
		if err = o.keep(ctx, t, container); err == nil || apierrors.IsNotFound(err) || !waited(ctx, time.After(pause)) {
			break
		}
	}
	return err
}

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
	// MaxTail is how much of the output of a container is kept.
	MaxTail = 1 << 20
	// tailLines is how many lines kubelet is asked for, and mostRead how much of them is read: lines may be long.
	tailLines = 20000
	mostRead  = 64 << 20
	// readers is how many pods that have ended are read at a time, each how many of them of one namespace, and waiting how many
	// more may wait for that.
	readers = 8
	each    = 2
	waiting = 4096
	// listeners is how many pods that are being deleted are listened to, and ofNamespace how many of them may be of one
	// namespace: a pod may take an hour to end. Of others what they have printed so far is kept.
	listeners   = 64
	ofNamespace = 16
	// readLimit is how long one reading of what a pod printed may take: a kubelet may accept, and never answer.
	readLimit = time.Minute
	// lastWords is how long the output of a pod that is gone may be on its way.
	lastWords = 2 * time.Second
	// tries is how often an output is asked for that cannot be read, and pause how long after the last time.
	tries = 3
	pause = 2 * time.Second
	// share is how many pods of one namespace may wait, so that those of others are read, too.
	share = waiting / 4
	// afterGrace is how much longer than its grace a pod that is being deleted is listened to.
	afterGrace = time.Minute
	// maxContainers is of how many containers of a pod the output is kept.
	maxContainers = 8
)

// Outputs keeps the end of what jobs have printed. A pod that has ended is read at once. One that is being deleted is listened
// to until it is gone: kubelet lets it print for as long as its grace, and its output goes with it.
type Outputs struct {
	Client kubernetes.Interface
	Store  *store.Store
	Log    *slog.Logger
	Now    func() time.Time
	// Budget is how many bytes are kept at the most.
	Budget int64

	queue chan task
	mu    sync.Mutex
	// busy are the pods that are being read, or wait for it, by UID; and listening how many of each namespace are listened to,
	// of all under "".
	busy      map[string]*parting
	listening map[string]int
	// held is how many pods of each namespace are busy.
	held map[string]int
	// past is what was read of pods, by UID.
	past *lru.Cache
}

// task is a pod to be read.
type task struct {
	pod *corev1.Pod
	// follow listens to it until its end.
	follow bool
	*parting
	// ended says that no more will be printed.
	ended bool
}

// parting is how a pod goes.
type parting struct {
	// gone is closed when it is no longer there. Its containers had ended by then if over says so, as a kubelet has it.
	gone chan struct{}
	over bool
}

// isOver reports whether a pod is gone and has printed all that it will.
func (p *parting) isOver() bool {
	select {
	case <-p.gone:
		return p.over
	default:
		return false
	}
}

// NewOutputs returns what keeps output in a store.
func NewOutputs(client kubernetes.Interface, s *store.Store, log *slog.Logger, budget int64) *Outputs {
	return &Outputs{
		Client: client, Store: s, Log: log, Now: time.Now, Budget: budget,
		queue: make(chan task, waiting), busy: map[string]*parting{}, listening: map[string]int{}, held: map[string]int{},
		past: lru.New(remembered),
	}
}

// Ending takes a pod that is being deleted, or has ended. It never waits: the ledger is written meanwhile.
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

// take notes that a pod is being read; false if it is already.
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

// lean is what is needed of a pod: those that wait may be thousands, and each as large as an object may be.
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

// Gone says that a pod is no longer there: who still listens to it hears no more.
func (o *Outputs) Gone(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	leaving := o.busy[string(pod.UID)]
	if leaving == nil {
		return
	}
	select {
	case <-leaving.gone: // told before
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

// listen counts a pod that is listened to.
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

// Run reads until ctx ends. Namespaces take turns.
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
				if !next.follow { // those that are listened to are counted already
					leave, err := places.Enter(ctx, next.pod.Namespace, 1)
					if err != nil {
						return // no more wait of a namespace than may, so it is ctx that has ended
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
		if waited(ctx, t.gone) && waited(ctx, time.After(lastWords)) { // what was printed is on its way
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

// waited waits for a channel, and reports whether it got there before the context ended.
func waited[T any](ctx context.Context, until <-chan T) bool {
	select {
	case <-ctx.Done():
		return false
	case <-until:
		return true
	}
}

// tryToKeep is keep, tried again where the kubelet does not answer, or its answer breaks off.
func (o *Outputs) tryToKeep(ctx context.Context, t task, container string) (err error) {
	for range tries {
		if err = o.keep(ctx, t, container); err == nil || apierrors.IsNotFound(err) || !waited(ctx, time.After(pause)) {
			break
		}
	}
	return err
}

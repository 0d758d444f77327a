package upgrade

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/oracle"
)

const (
	// tick is how often the load looks at its jobs, and creates one more.
	tick = 300 * time.Millisecond
	// runs is how long a job runs.
	runs = 5 * time.Second
	// mostAtOnce is how many jobs there are at a time: those that come find room, and little more.
	mostAtOnce = 16

	jobPrefix = "job-"
	// firstJob comes and ends before anything is replaced.
	firstJob = jobPrefix + "0"
)

// job is one that the load has created.
type job struct {
	name          string
	members, gpus int
	cancel, evict bool // what is to be done to it
	evicted, over bool // what was
	created       time.Time
}

// load creates jobs by the gpuctls of its releases in turn, has them run for some seconds, cancels one in seven and evicts a pod
// of one in five.
type load struct {
	*testing.T
	namespace string
	recorder  *oracle.Recorder
	done      chan struct{}

	mu       sync.Mutex
	gpuctls  []release
	closed   bool // no more jobs are created
	jobs     []*job
	notReady int // answers that admission is not ready
}

// newLoad starts to create jobs.
func newLoad(t *testing.T, gpuctls ...release) *load {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "upgrade-"}}
	namespace, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := &load{T: t, namespace: namespace.Name, gpuctls: gpuctls, done: make(chan struct{})}
	if l.recorder, err = oracle.Watch(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	go l.run(t.Context())
	return l
}

// by has other releases' gpuctls create and cancel jobs from now on.
func (l *load) by(gpuctls ...release) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gpuctls = gpuctls
}

// next is whose turn it is.
func (l *load) next() release {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.gpuctls[len(l.jobs)%len(l.gpuctls)]
}

func (l *load) run(ctx context.Context) {
	defer close(l.done)
	for ctx.Err() == nil {
		begin := time.Now()
		open, err := l.step(ctx)
		if err != nil && ctx.Err() == nil {
			l.Error(err)
			return
		}
		if l.isClosed() && open == 0 {
			return
		}
		time.Sleep(max(0, tick-time.Since(begin)))
	}
}

func (l *load) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// step does what is due, and returns how many jobs are not over.
func (l *load) step(ctx context.Context) (open int, err error) {
	list, err := client.CoreV1().Pods(l.namespace).List(ctx, metav1.ListOptions{FieldSelector: "status.phase=" + string(corev1.PodRunning)})
	if err != nil {
		return 0, err
	}
	running := map[string][]*corev1.Pod{}
	for i := range list.Items {
		if pod := &list.Items[i]; pod.DeletionTimestamp == nil {
			running[pod.Labels[names.LabelJob]] = append(running[pod.Labels[names.LabelJob]], pod)
		}
	}
	for _, j := range l.jobs {
		if j.over {
			continue
		}
		open++
		if err := l.treat(ctx, j, running[j.name]); err != nil {
			return open, err
		}
	}
	if !l.isClosed() && open < mostAtOnce {
		err = l.create(ctx)
	}
	return open, err
}

// treat does to a job what is due: it is cancelled while it waits or has just begun, or loses a pod, or ends.
func (l *load) treat(ctx context.Context, j *job, running []*corev1.Pod) error {
	switch whole := len(running) == j.members; {
	case j.cancel && time.Since(j.created) > time.Second:
		_, err := l.next().gpuctl(ctx, cluster.Kubeconfig(), "", "delete", "job", j.name, "-n", l.namespace)
		j.over = err == nil
		return err
	case j.evict && !j.evicted && whole:
		j.evicted = true
		return l.evict(ctx, running[0])
	case j.cancel || !whole || j.evict && !j.evicted || time.Since(begun(running)) < runs:
		return l.look(ctx, j)
	default:
		return l.finish(ctx, running)
	}
}

// begun is when the last of a job's pods began to run.
func begun(pods []*corev1.Pod) (last time.Time) {
	for _, pod := range pods {
		if started := pod.Status.StartTime; started != nil && started.After(last) {
			last = started.Time
		}
	}
	return last
}

func (l *load) evict(ctx context.Context, pod *corev1.Pod) error {
	return client.PolicyV1().Evictions(l.namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: l.namespace}})
}

// finish has the containers of pods succeed.
func (l *load) finish(ctx context.Context, pods []*corev1.Pod) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"1ms"}}}`, sandbox.AnnotationRunFor)
	for _, pod := range pods {
		_, err := client.CoreV1().Pods(l.namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// look sees whether a job is over.
func (l *load) look(ctx context.Context, j *job) error {
	found, err := client.BatchV1().Jobs(l.namespace).Get(ctx, j.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, condition := range found.Status.Conditions {
		if condition.Status != corev1.ConditionTrue {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			j.over = true
		case batchv1.JobFailed:
			return fmt.Errorf("job %s failed: %s", j.name, condition.Message)
		}
	}
	return nil
}

// create creates the next job: of three in ten the pods are a gang's.
func (l *load) create(ctx context.Context) error {
	i := len(l.jobs)
	j := &job{name: fmt.Sprint(jobPrefix, i), members: 1, gpus: []int{1, 2, 4, 8}[i%4], cancel: i%7 == 6, evict: i%5 == 3, created: time.Now()}
	switch i % 10 {
	case 0:
		j.members, j.gpus = 3, 8
	case 3, 6:
		j.members, j.gpus = 2, 4
	}
	return l.submit(ctx, j)
}

// notReady is what the API server answers while it has a new policy, and has not read what the policy asks about: it is to be
// asked again (docs/install.md).
const notReady = "not yet synced to use for admission"

// submit creates a job. Those of the new release have fields that an older one may not know.
func (l *load) submit(ctx context.Context, j *job) error {
	by, more := l.next(), ""
	if by.name == newName {
		more = ", min-runtime: 1m, time-limit: 1h"
	}
	text := fmt.Sprintf("kind: training\njob: {name: %s, retries: 0}\nenvironment: {image: busybox, command: [train]}\n"+
		"resources: {gpu: %d, memory: 8Gi, pool: %s, nodes: %d%s}\n", j.name, j.gpus, pool, j.members, more)
	_, err := by.gpuctl(ctx, cluster.Kubeconfig(), text, "create", "-f", "-", "-n", l.namespace)
	if err != nil && strings.Contains(err.Error(), notReady) {
		l.notReady++
		return nil
	}
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.jobs = append(l.jobs, j)
	return nil
}

// count is how many jobs there were.
func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.jobs)
}

// goOn waits until the load has gone on for the time between two steps.
func (l *load) goOn() {
	l.Helper()
	least := l.count() + 1
	for begin := time.Now(); time.Since(begin) < *rest || l.count() < least; time.Sleep(tick) {
		select {
		case <-l.done:
			l.Fatal("the load has ended")
		default:
		}
		if time.Since(begin) > *rest+bounds.Patience {
			l.Fatalf("no job was created in %s", bounds.Patience)
		}
	}
}

// close creates no more jobs and waits until all of them are over.
func (l *load) close() {
	l.Helper()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	select {
	case <-l.done:
	case <-time.After(bounds.Patience):
		l.Fatalf("not all jobs come to their end\n%s", l.waiting())
	}
}

// waiting are the pods that have not ended.
func (l *load) waiting() string {
	out, err := cluster.RunKubectl(l.Context(), "get", "pods", "-n", l.namespace, "--field-selector=status.phase!=Succeeded", "-o",
		`custom-columns=NAME:.metadata.name,NODE:.spec.nodeName,PHASE:.status.phase,DELETED:.metadata.deletionTimestamp,SAYS:.status.conditions[?(@.type=="PodScheduled")].message`)
	if err != nil {
		return err.Error()
	}
	return string(out)
}

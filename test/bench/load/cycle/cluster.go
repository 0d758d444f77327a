// Package cycle takes pods through the scheduling cycle alone, with our shipped configuration or the stock one: the real
// snapshot, framework, plugins and queue, in memory, without binding and API server.
//
//	go test -run '^$' -bench . ./test/bench/load/cycle
//
// The clusters of one measurement place the same pods in turns, so that a ratio does not depend on what else the machine
// does. CPU time is that of the process, with garbage collection.
package cycle

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme" // decodes the arguments of our plugins
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	quotas "g8s.host/gpu-scheduler/pkg/gpuquota/follow"
	"g8s.host/gpu-scheduler/pkg/simulate/choice"
	"g8s.host/gpu-scheduler/plugins"
)

// Setup is a scheduler to build.
type Setup struct {
	// Config is the path of its configuration.
	Config string
	// List has it try the best nodes first, as gpu-scheduler does.
	List bool
}

// World is what a scheduler finds.
type World struct {
	Nodes []*corev1.Node
	// Pods are those that run, each on a node of the world.
	Pods []*corev1.Pod
	// Volumes are claims and the volumes that they are bound to.
	Volumes []kuberuntime.Object
	// Quotas say how many GPUs namespaces may have.
	Quotas []*names.GPUQuota
}

// Cluster is a scheduler without API server: cache, snapshot, queue, framework and plugins are the real ones.
type Cluster struct {
	Scheduler *scheduler.Scheduler
	// Informers hold what an API server would tell. They do not run: who changes something tells them.
	Informers informers.SharedInformerFactory

	profile framework.Framework
	queue   *numbered
	placed  []*corev1.Pod
	quotas  *quotas.Quotas
}

// numbered is the queue of a scheduler whose pods do not come through it. kube-scheduler numbers its cycles there, and places a pod by what it
// found for one like it only if that was the cycle before (OpportunisticBatching).
type numbered struct {
	queue.SchedulingQueue
	cycle int64
}

// SchedulingCycle implements queue.SchedulingQueue.
func (q *numbered) SchedulingCycle() int64 { return q.cycle }

// nowhere is an API server that does not answer. Only pods of a gang would need it, whose groups are read from there.
var nowhere = &rest.Config{Host: "https://127.0.0.1:1"}

// New builds a scheduler that knows a world. It ends with the context.
func New(ctx context.Context, world *World, setup Setup) (*Cluster, error) {
	cfg, err := options.LoadConfigFromFile(klog.Background(), setup.Config)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", setup.Config, err)
	}
	client := fake.NewClientset(world.Volumes...)
	factory := informers.NewSharedInformerFactory(client, 0)
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	shares := quotas.New(nil)
	registry := plugins.Registry(plugins.Dependencies{Explain: explain.NewRecorder(explain.DefaultLimits), Quotas: shares})
	sched, err := scheduler.New(ctx, client, factory, nil, recorders,
		scheduler.WithProfiles(cfg.Profiles...), scheduler.WithKubeConfig(nowhere), scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		return nil, fmt.Errorf("building the scheduler of %s: %w", setup.Config, err)
	}
	if setup.List {
		plugins.Wrap(sched, plugins.Options{})
	}
	line := &numbered{SchedulingQueue: sched.SchedulingQueue}
	sched.SchedulingQueue = line
	c := &Cluster{Scheduler: sched, Informers: factory, profile: sched.Profiles[names.SchedulerName], queue: line, quotas: shares}
	return c, c.furnish(ctx, world)
}

func (c *Cluster) furnish(ctx context.Context, world *World) error {
	logger := klog.FromContext(ctx)
	for _, node := range world.Nodes {
		if err := c.nodes().Add(node); err != nil {
			return fmt.Errorf("adding node %s: %w", node.Name, err)
		}
		c.Scheduler.Cache.AddNode(logger, node)
	}
	for _, pod := range world.Pods {
		if err := c.Pods().Add(pod); err != nil {
			return fmt.Errorf("adding pod %s: %w", pod.Name, err)
		}
		if err := c.Scheduler.Cache.AddPod(logger, pod); err != nil {
			return fmt.Errorf("adding pod %s: %w", pod.Name, err)
		}
	}
	if err := quotas.SeedInformer(c.Informers, world.Quotas...); err != nil {
		return err
	}
	c.quotas.UseManualUpdates()
	if len(world.Volumes) == 0 {
		return nil
	}
	// What is assumed of volumes is fed by events, so these informers run.
	core, storage := c.Informers.Core().V1(), c.Informers.Storage().V1()
	for _, informer := range []cache.SharedIndexInformer{
		core.PersistentVolumes().Informer(), core.PersistentVolumeClaims().Informer(), storage.StorageClasses().Informer(),
	} {
		go informer.RunWithContext(ctx)
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return fmt.Errorf("listing volumes: %w", ctx.Err())
		}
	}
	return nil
}

func (c *Cluster) nodes() cache.Indexer {
	return c.Informers.Core().V1().Nodes().Informer().GetIndexer()
}

// Pods returns the pods that the scheduler has been told of.
func (c *Cluster) Pods() cache.Indexer { return c.Informers.Core().V1().Pods().Informer().GetIndexer() }

// SignsPod reports whether the scheduler gives a pod a signature, without which it never places it by batching.
func (c *Cluster) SignsPod(ctx context.Context, pod *corev1.Pod) bool {
	return c.profile.SignPod(ctx, pod) != nil
}

// StandBy reads what has changed, as gpu-scheduler does while another one leads, until what ends it.
func (c *Cluster) StandBy() (read func(context.Context) bool) {
	return plugins.NewStandby(c.Scheduler).Read
}

// Place takes pods that come together through what the scheduler does in its one loop: everything up to the binding, which
// other goroutines do.
func (c *Cluster) Place(ctx context.Context, pods ...*corev1.Pod) error {
	for _, pod := range pods {
		if err := c.Pods().Add(pod); err != nil {
			return fmt.Errorf("adding pod %s: %w", pod.Name, err)
		}
	}
	for _, pod := range pods {
		if err := c.place(ctx, pod); err != nil {
			return fmt.Errorf("placing pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

func (c *Cluster) place(ctx context.Context, pod *corev1.Pod) error {
	state := framework.NewCycleState()
	result, err := c.choose(ctx, state, pod)
	if err != nil {
		return err
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = result.SuggestedHost
	if err := c.Scheduler.Cache.AssumePod(klog.FromContext(ctx), assumed); err != nil {
		return err
	}
	c.placed = append(c.placed, assumed)
	if status := c.profile.RunReservePluginsReserve(ctx, state, assumed, result.SuggestedHost); !status.IsSuccess() {
		return status.AsError()
	}
	switch waits, status := c.profile.RunPermitPlugins(ctx, state, assumed, result.SuggestedHost); {
	case status.IsWait():
		c.profile.AddWaitingPod(assumed, waits)
	case !status.IsSuccess():
		return status.AsError()
	}
	if err := c.Pods().Update(assumed); err != nil {
		return err
	}
	c.quotas.UpdatePod(assumed)
	return nil
}

// Refuse takes pods that come together and fit nowhere through an attempt each, with all that is done to tell why and whom to evict. It
// is an error if one fits somewhere.
func (c *Cluster) Refuse(ctx context.Context, pods ...*corev1.Pod) error {
	for _, pod := range pods {
		if err := c.Pods().Add(pod); err != nil {
			return fmt.Errorf("adding pod %s: %w", pod.Name, err)
		}
	}
	for _, pod := range pods {
		if err := c.refuse(ctx, pod); err != nil {
			return err
		}
	}
	for _, pod := range pods {
		if err := c.Pods().Delete(pod); err != nil {
			return fmt.Errorf("taking pod %s away: %w", pod.Name, err)
		}
	}
	return nil
}

func (c *Cluster) refuse(ctx context.Context, pod *corev1.Pod) error {
	state := framework.NewCycleState()
	result, err := c.choose(ctx, state, pod)
	if err == nil {
		return fmt.Errorf("pod %s fits on %s", pod.Name, result.SuggestedHost)
	}
	var unfit *framework.FitError
	if !errors.As(err, &unfit) {
		return fmt.Errorf("trying pod %s: %w", pod.Name, err)
	}
	if _, status := c.profile.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus); !status.IsRejected() {
		return fmt.Errorf("looking for pods to evict for %s: %w", pod.Name, status.AsError())
	}
	return nil
}

// Reclaim takes a pod that fits nowhere through an attempt for which others leave. It is an error if nobody does.
func (c *Cluster) Reclaim(ctx context.Context, pod *corev1.Pod) error {
	if err := c.Pods().Add(pod); err != nil {
		return fmt.Errorf("adding pod %s: %w", pod.Name, err)
	}
	state := framework.NewCycleState()
	_, err := c.choose(ctx, state, pod)
	var unfit *framework.FitError
	if !errors.As(err, &unfit) {
		return fmt.Errorf("pod %s is to fit nowhere: %w", pod.Name, err)
	}
	result, status := c.profile.RunPostFilterPlugins(ctx, state, pod, unfit.Diagnosis.NodeToStatus)
	if result == nil || result.NominatingInfo == nil || result.NominatedNodeName == "" {
		return fmt.Errorf("nobody leaves for pod %s: %s", pod.Name, status.Message())
	}
	return nil
}

// choose chooses a node for a pod, in a cycle of its own.
func (c *Cluster) choose(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (scheduler.ScheduleResult, error) {
	c.queue.cycle++
	return choice.ChooseNode(ctx, c.Scheduler, c.profile, state, pod)
}

// Clear takes all placed pods away again.
func (c *Cluster) Clear(ctx context.Context) error {
	for _, pod := range c.placed {
		// Whoever waits for the others of its gang is let go first, since the framework keeps account of it.
		if waiting := c.profile.GetWaitingPod(pod.UID); waiting != nil {
			waiting.Allow("Coscheduling")
			if status := c.profile.WaitOnPermit(ctx, pod); !status.IsSuccess() {
				return fmt.Errorf("letting pod %s go: %w", pod.Name, status.AsError())
			}
		}
		c.profile.RunReservePluginsUnreserve(ctx, framework.NewCycleState(), pod, pod.Spec.NodeName)
		if err := c.Scheduler.Cache.ForgetPod(klog.FromContext(ctx), pod); err != nil {
			return fmt.Errorf("taking pod %s away: %w", pod.Name, err)
		}
		if err := c.Pods().Delete(pod); err != nil {
			return fmt.Errorf("taking pod %s away: %w", pod.Name, err)
		}
		c.quotas.UpdatePod(pod)
	}
	c.placed = c.placed[:0]
	c.queue.cycle++ // what was found for the pod before the first that comes now is of another cluster
	return nil
}

// Cost is what placing some pods took.
type Cost struct {
	Pods      int
	Wall, CPU time.Duration
	Mallocs   uint64
}

// Add sums up.
func (c *Cost) Add(other Cost) {
	c.Pods += other.Pods
	c.Wall += other.Wall
	c.CPU += other.CPU
	c.Mallocs += other.Mallocs
}

// PodsPerSecond is by the clock.
func (c *Cost) PodsPerSecond() float64 { return float64(c.Pods) / c.Wall.Seconds() }

// CPUPerPod is in microseconds.
func (c *Cost) CPUPerPod() float64 { return float64(c.CPU.Nanoseconds()) / 1000 / float64(c.Pods) }

// MallocsPerPod counts allocations.
func (c *Cost) MallocsPerPod() float64 { return float64(c.Mallocs) / float64(c.Pods) }

// Measure returns what it takes to do something with so many pods, from a heap that has just been swept. do returns with
// how many pods it has done it.
func Measure(do func() (pods int, err error)) (Cost, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := CPUTime(), time.Now()
	pods, err := do()
	spent := Cost{Pods: pods, Wall: time.Since(began), CPU: CPUTime() - cpu}
	runtime.ReadMemStats(&after)
	spent.Mallocs = after.Mallocs - before.Mallocs
	return spent, err
}

// CPUTime is what this process has used so far, in user and in kernel mode.
func CPUTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

package cycle

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/plugins"
	"g8s.host/gpu-scheduler/test/perf"
)

// setup is a scheduler to build.
type setup struct {
	// config is the path of its configuration.
	config string
	// list has it try the best nodes first, as gpu-scheduler does.
	list bool
}

// The schedulers that are compared.
var (
	shippedConfig = filepath.FromSlash("../../../manifests/scheduler/scheduler-config.yaml")

	shipped = setup{config: shippedConfig, list: true}
	wide    = setup{config: shippedConfig}
	stock   = setup{config: filepath.FromSlash("../testdata/stock.yaml")}
)

// cluster is a scheduler without queue and API server: snapshot, framework and plugins are the real ones.
type cluster struct {
	fleet     perf.Fleet
	scheduler *scheduler.Scheduler
	profile   framework.Framework
	// pools is how many of the fleet's pools get pods, 0 for all.
	pools   int
	pods    int
	assumed []*corev1.Pod
}

// nowhere is an API server that does not answer. Only pods of a gang would need it, whose groups are read from there.
var nowhere = &rest.Config{Host: "https://127.0.0.1:1"}

func newCluster(tb testing.TB, fleet perf.Fleet, s setup) *cluster {
	tb.Helper()
	cfg, err := options.LoadConfigFromFile(klog.Background(), s.config)
	if err != nil {
		tb.Fatalf("loading %s: %v", s.config, err)
	}
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	recorders := profile.NewRecorderFactory(events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()}))
	registry := plugins.Registry(plugins.Dependencies{Explain: explain.NewRecorder(explain.DefaultLimits)})
	sched, err := scheduler.New(tb.Context(), client, factory, nil, recorders,
		scheduler.WithProfiles(cfg.Profiles...), scheduler.WithKubeConfig(nowhere), scheduler.WithFrameworkOutOfTreeRegistry(registry))
	if err != nil {
		tb.Fatalf("building the scheduler of %s: %v", s.config, err)
	}
	nodes, err := fleet.NodeList()
	if err != nil {
		tb.Fatal(err)
	}
	if s.list {
		plugins.Wrap(sched, plugins.Options{})
	}
	for _, node := range nodes {
		if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
			tb.Fatal(err)
		}
		sched.Cache.AddNode(klog.Background(), node)
	}
	return &cluster{fleet: fleet, scheduler: sched, profile: sched.Profiles[names.SchedulerName]}
}

// place takes the next pod through what the scheduler does in its one loop: everything up to the binding, which
// other goroutines do.
func (c *cluster) place(ctx context.Context) error {
	fleet := c.fleet
	if c.pools > 0 {
		fleet.Pools = c.pools
	}
	pod := fleet.Pod(c.pods, 1)
	pod.UID = types.UID(fmt.Sprint("uid-", c.pods))
	c.pods++
	state := framework.NewCycleState()
	result, err := c.scheduler.SchedulePod(ctx, c.profile, state, pod)
	if err != nil {
		return err
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = result.SuggestedHost
	if err := c.scheduler.Cache.AssumePod(klog.FromContext(ctx), assumed); err != nil {
		return err
	}
	c.assumed = append(c.assumed, assumed)
	if status := c.profile.RunReservePluginsReserve(ctx, state, assumed, result.SuggestedHost); !status.IsSuccess() {
		return status.AsError()
	}
	return c.profile.RunPermitPlugins(ctx, state, assumed, result.SuggestedHost).AsError()
}

// clear takes all pods away again.
func (c *cluster) clear(ctx context.Context) error {
	for _, pod := range c.assumed {
		c.profile.RunReservePluginsUnreserve(ctx, framework.NewCycleState(), pod, pod.Spec.NodeName)
		if err := c.scheduler.Cache.ForgetPod(klog.FromContext(ctx), pod); err != nil {
			return err
		}
	}
	c.assumed = c.assumed[:0]
	return nil
}

// cost is what placing some pods took.
type cost struct {
	pods      int
	wall, cpu time.Duration
	mallocs   uint64
}

func (c *cost) add(other cost) {
	c.pods += other.pods
	c.wall += other.wall
	c.cpu += other.cpu
	c.mallocs += other.mallocs
}

func (c *cost) podsPerSecond() float64 { return float64(c.pods) / c.wall.Seconds() }
func (c *cost) cpuPerPod() float64     { return float64(c.cpu.Microseconds()) / float64(c.pods) }
func (c *cost) mallocsPerPod() float64 { return float64(c.mallocs) / float64(c.pods) }

// fill places pods and takes them away again, and measures the placing.
func (c *cluster) fill(ctx context.Context, pods int) (cost, error) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(), time.Now()
	for range pods {
		if err := c.place(ctx); err != nil {
			return cost{}, fmt.Errorf("placing pod %d: %w", c.pods, err)
		}
	}
	spent := cost{pods: pods, wall: time.Since(began), cpu: cpuTime() - cpu}
	runtime.ReadMemStats(&after)
	spent.mallocs = after.Mallocs - before.Mallocs
	return spent, c.clear(ctx)
}

// cpuTime is what this process has used so far, in user and in kernel mode.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

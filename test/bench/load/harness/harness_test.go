// Package harness runs Kubernetes' own scheduler_perf with our scheduler, or with the stock one:
//
//	cd test/bench/load/harness
//	PATH=$PWD/../../../../bin/tools:$PATH go test -run '^$' -bench PerfScheduling -benchtime 1x -wrap -scheduler-config \
//		../../../../manifests/scheduler/scheduler-config.yaml -data-items-dir /tmp/out -rates /tmp/rates
//
// scheduler_perf runs the API server and a scheduler in one process. It builds that scheduler itself, without what cmd/gpu-scheduler
// adds to one (plugins.Wrap), so its own has nothing to do here: the one that is measured runs beside it, ours and the stock one
// alike. `make bench` runs it for both configurations in turns and reports what it wrote.
package harness

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/events"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	benchmark "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/ktesting"
	"sigs.k8s.io/yaml"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
	"g8s.host/gpu-scheduler/pkg/backpressure"
	"g8s.host/gpu-scheduler/plugins"
)

const (
	cases = "testdata/cases.yaml"
	// hotReload names the cases in which the scoring policy changes.
	hotReload = "HotReload"
	// mountedPolicy is where the shipped configuration looks for the scoring policy.
	mountedPolicy = "/etc/gpu-scheduler-policy/score-policy.yaml"
	// gangs is the plugin that is left out.
	gangs = "Coscheduling"
	// bindings is how many may be under way at most, as cmd/gpu-scheduler has it.
	bindings = 128
)

var (
	schedulerConfig = flag.String("scheduler-config", "", "KubeSchedulerConfiguration to measure")
	wrap            = flag.Bool("wrap", false, "Add to the scheduler what cmd/gpu-scheduler does")
	rates           = flag.String("rates", "", "File to add a line to for each workload, with how fast its pods were placed")
)

func TestMain(m *testing.M) {
	benchmark.PluginNames = append(benchmark.PluginNames, "GPUFilter", "GPUScore", "GPUDevices")
	if err := benchmark.InitTests(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func BenchmarkPerfScheduling(b *testing.B) {
	if *schedulerConfig == "" {
		b.Skip("no -scheduler-config")
	}
	policy := filepath.Join(b.TempDir(), "policy.yaml")
	config := configured(b, policy)
	benchmark.RunBenchmarkPerfScheduling(b, cases, "gpu", nil, benchmark.WithPrepareFn(func(tCtx ktesting.TContext) error {
		if strings.Contains(tCtx.Name(), hotReload) {
			go keepChanging(tCtx, policy)
		}
		return start(tCtx, config)
	}))
}

// start runs the scheduler that is measured until the workload ends. It is made as scheduler_perf makes its own
// (util.StartScheduler of k8s.io/kubernetes/test/integration).
func start(tCtx ktesting.TContext, path string) error {
	config, err := options.LoadConfigFromFile(tCtx.Logger(), path)
	if err != nil {
		return err
	}
	recorded := events.NewBroadcaster(&events.EventSinkImpl{Interface: tCtx.Client().EventsV1()})
	if err := recorded.StartRecordingToSinkWithContext(tCtx); err != nil {
		return fmt.Errorf("recording events: %w", err)
	}
	go func() {
		<-tCtx.Done()
		recorded.Shutdown()
	}()
	gate := backpressure.NewGate(bindings)
	objects := scheduler.NewInformerFactory(tCtx.Client(), 0)
	sched, err := scheduler.New(tCtx, tCtx.Client(), objects, nil, profile.NewRecorderFactory(recorded),
		scheduler.WithKubeConfig(tCtx.RESTConfig()),
		scheduler.WithProfiles(config.Profiles...),
		scheduler.WithPercentageOfNodesToScore(config.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(config.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(config.PodInitialBackoffSeconds),
		scheduler.WithParallelism(config.Parallelism),
		scheduler.WithFrameworkOutOfTreeRegistry(plugins.Registry(plugins.Dependencies{Gate: gate})),
	)
	if err != nil {
		return fmt.Errorf("making the scheduler: %w", err)
	}
	if *wrap {
		plugins.Wrap(sched, plugins.Options{Gate: gate})
	}
	if *rates != "" {
		if err := timeWorkload(tCtx, objects.Core().V1().Pods(), *rates); err != nil {
			return err
		}
	}
	objects.Start(tCtx.Done())
	objects.WaitForCacheSync(tCtx.Done())
	if err := sched.WaitForHandlersSync(tCtx); err != nil {
		return fmt.Errorf("waiting for the scheduler to know its objects: %w", err)
	}
	go sched.Run(tCtx)
	return nil
}

// configured writes the configuration that is to be measured, with the scoring policy where it is, and returns the path.
func configured(b *testing.B, policy string) string {
	b.Helper()
	config, err := os.ReadFile(*schedulerConfig)
	if err != nil {
		b.Fatal(err)
	}
	config, err = withoutGangs([]byte(strings.ReplaceAll(string(config), mountedPolicy, policy)))
	if err != nil {
		b.Fatalf("parsing %s: %v", *schedulerConfig, err)
	}
	path := filepath.Join(b.TempDir(), "scheduler-config.yaml")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// withoutGangs takes Coscheduling out of the profiles. No case has a gang, and the caches of that plugin have goroutines
// that never end, which scheduler_perf takes for a fault.
func withoutGangs(data []byte) ([]byte, error) {
	var config kubeschedulerconfigv1.KubeSchedulerConfiguration
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	for i := range config.Profiles {
		profile := &config.Profiles[i]
		profile.PluginConfig = slices.DeleteFunc(profile.PluginConfig, func(c kubeschedulerconfigv1.PluginConfig) bool { return c.Name == gangs })
		if profile.Plugins == nil {
			continue
		}
		profile.Plugins.QueueSort = kubeschedulerconfigv1.PluginSet{}
		profile.Plugins.MultiPoint.Enabled = slices.DeleteFunc(profile.Plugins.MultiPoint.Enabled,
			func(p kubeschedulerconfigv1.Plugin) bool { return p.Name == gangs })
	}
	return yaml.Marshal(config)
}

// keepChanging replaces the scoring policy each second, until the workload ends.
func keepChanging(tCtx ktesting.TContext, path string) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		policy := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: GPUScoreArgs\nweights: {utilization: %d}\n", 40+i%20)
		if err := os.WriteFile(path+".new", []byte(policy), 0o600); err != nil {
			tCtx.Errorf("changing the policy: %v", err)
			return
		}
		if err := os.Rename(path+".new", path); err != nil {
			tCtx.Errorf("changing the policy: %v", err)
			return
		}
		select {
		case <-tCtx.Done():
			return
		case <-tick.C:
		}
	}
}

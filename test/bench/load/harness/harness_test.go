// Package harness runs Kubernetes' own scheduler_perf with our plugins, or with none of them:
//
//	cd test/bench/load/harness
//	PATH=$PWD/../../../../bin/tools:$PATH go test -run '^$' -bench PerfScheduling -benchtime 1x -scheduler-config \
//		../../../../manifests/scheduler/scheduler-config.yaml -data-items-dir /tmp/out
//
// scheduler_perf runs the API server and the scheduler in one process, and builds the scheduler itself: what
// cmd/gpu-scheduler adds to one (plugins.Wrap) is not in its figures, the plugins are. `make bench` runs it for both
// configurations in turns and reports what it wrote.
package harness

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	kubeschedulerconfigv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	benchmark "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/ktesting"
	"sigs.k8s.io/yaml"

	_ "g8s.host/gpu-scheduler/pkg/apis/config/scheme"
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
)

var schedulerConfig = flag.String("scheduler-config", "", "KubeSchedulerConfiguration to measure")

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
	benchmark.RunBenchmarkPerfScheduling(b, casesFor(b, policy), "gpu", forEachScheduler(),
		benchmark.WithPrepareFn(func(tCtx ktesting.TContext) error {
			if strings.Contains(tCtx.Name(), hotReload) {
				go keepChanging(tCtx, policy)
			}
			return nil
		}))
}

// forEachScheduler returns our plugins, with a ledger of cards for each scheduler: scheduler_perf starts one for each case,
// and a ledger follows the nodes of the first that it is given to.
func forEachScheduler() runtime.Registry {
	var (
		mu      sync.Mutex
		of      informers.SharedInformerFactory
		current runtime.Registry
		all     = runtime.Registry{}
	)
	for name := range plugins.Registry(plugins.Dependencies{}) {
		all[name] = func(ctx context.Context, args kuberuntime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			mu.Lock()
			defer mu.Unlock()
			if handle.SharedInformerFactory() != of {
				of, current = handle.SharedInformerFactory(), plugins.Registry(plugins.Dependencies{})
			}
			return current[name](ctx, args, handle)
		}
	}
	return all
}

// casesFor writes the cases with the configuration that is to be measured, and returns the path.
func casesFor(b *testing.B, policy string) string {
	b.Helper()
	config, err := os.ReadFile(*schedulerConfig)
	if err != nil {
		b.Fatal(err)
	}
	config, err = withoutGangs([]byte(strings.ReplaceAll(string(config), mountedPolicy, policy)))
	if err != nil {
		b.Fatalf("parsing %s: %v", *schedulerConfig, err)
	}
	configPath := filepath.Join(b.TempDir(), "scheduler-config.yaml")
	write(b, configPath, config)
	data, err := os.ReadFile(cases)
	if err != nil {
		b.Fatal(err)
	}
	var list []map[string]any
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		b.Fatalf("parsing %s: %v", cases, err)
	}
	for _, c := range list {
		c["schedulerConfigPath"] = configPath
	}
	if data, err = yaml.Marshal(list); err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "cases.yaml")
	write(b, path, data)
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

func write(b *testing.B, path string, data []byte) {
	b.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
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

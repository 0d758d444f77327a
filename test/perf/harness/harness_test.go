// Package harness runs Kubernetes' own scheduler_perf with our plugins, or with none of them:
//
//	cd test/perf/harness
//	PATH=$PWD/../../../bin/tools:$PATH go test -run '^$' -bench PerfScheduling -benchtime 1x -scheduler-config \
//		../../../manifests/scheduler/scheduler-config.yaml -data-items-dir /tmp/out
//
// scheduler_perf runs the API server and the scheduler in one process, and builds the scheduler itself: what
// cmd/gpu-scheduler adds to one (plugins.Attach) is not in its figures, the plugins are. `make bench` runs it for both
// configurations in turns and reports what it wrote.
package harness

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	benchmark.RunBenchmarkPerfScheduling(b, casesFor(b, policy), "gpu", plugins.Registry(plugins.Dependencies{}),
		benchmark.WithPrepareFn(func(tCtx ktesting.TContext) error {
			if strings.Contains(tCtx.Name(), hotReload) {
				go keepChanging(tCtx, policy)
			}
			return nil
		}))
}

// casesFor writes the cases with the configuration that is to be measured, and returns the path.
func casesFor(b *testing.B, policy string) string {
	b.Helper()
	config, err := os.ReadFile(*schedulerConfig)
	if err != nil {
		b.Fatal(err)
	}
	configPath := filepath.Join(b.TempDir(), "scheduler-config.yaml")
	write(b, configPath, []byte(strings.ReplaceAll(string(config), mountedPolicy, policy)))
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

package gpureserve

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/component-base/metrics/legacyregistry"

	"g8s.host/gpu-scheduler/pkg/fragmentation"
)

// TestMetricsOfPoolsThatAreGoneAreDropped has pools come and go, which would otherwise add up.
func TestMetricsOfPoolsThatAreGoneAreDropped(t *testing.T) {
	registerMetrics()
	pools := func(names ...string) *fragmentation.Forecasts {
		pools := map[string]*fragmentation.Pool{}
		for _, name := range names {
			pools[name] = &fragmentation.Pool{}
		}
		return (*fragmentation.Forecasts)(nil).Next(pools, &fragmentation.PodCount{})
	}
	first, second := pools("metrics-a", "metrics-b"), pools("metrics-b", "metrics-c")
	showPools(nil, first)
	keptPods.WithLabelValues("metrics-a").Inc()
	showPools(first, second)
	if diff := cmp.Diff([]string{"metrics-b", "metrics-c"}, poolsShown(t, "metrics-")); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	showPools(second, pools())
	if got := poolsShown(t, "metrics-"); len(got) > 0 {
		t.Errorf("pools that are gone are shown: %v", got)
	}
}

// poolsShown returns the pools of this test on /metrics.
func poolsShown(t *testing.T, prefix string) []string {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var pools []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == "gpu_scheduler_score_kept_whole_pods_total" && strings.HasPrefix(label.GetValue(), prefix) {
					pools = append(pools, label.GetValue())
				}
			}
		}
	}
	slices.Sort(pools)
	return pools
}

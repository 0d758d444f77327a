package gpureserve

import (
	"fmt"
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
		return (*fragmentation.Forecasts)(nil).NextForecasts(pools, nil, &fragmentation.PodCount{})
	}
	p := &Plugin{}
	p.updateShownPools(pools("metrics-a", "metrics-b"))
	keptPods.WithLabelValues("metrics-a").Inc()
	p.updateShownPools(pools("metrics-b", "metrics-c"))
	if diff := cmp.Diff([]string{"metrics-b", "metrics-c"}, poolsShown(t, "metrics-")); diff != "" {
		t.Errorf("pools (-want +got):\n%s", diff)
	}
	p.updateShownPools(pools())
	if got := poolsShown(t, "metrics-"); len(got) > 0 {
		t.Errorf("pools that are gone are shown: %v", got)
	}
	var many []string
	for i := range 10_000 {
		many = append(many, fmt.Sprintf("metrics-%05d", i))
	}
	p.updateShownPools(pools(many...))
	for _, pool := range many {
		keptPods.WithLabelValues(p.shown.Load().poolLabel(pool)).Inc()
	}
	if got := poolsShown(t, "metrics-"); !slices.Equal(got, many[:maxCountedPools]) || !slices.Equal(poolsShown(t, otherPools), []string{otherPools}) {
		t.Errorf("%d pools are shown of 10,000, want the first %d and the others as one", len(got), maxCountedPools)
	}
	p.updateShownPools(pools())
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

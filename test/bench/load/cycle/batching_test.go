package cycle

import (
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/bench/load"
)

// TestStockIsMeasuredWithItsBatching: OpportunisticBatching is on in all that is measured. The stock scheduler as it comes takes no two pods for
// equal, as it spreads replicas by default, and so never has use for it; without that default, it places equal pods by it.
func TestStockIsMeasuredWithItsBatching(t *testing.T) {
	batching := Setup{Config: filepath.FromSlash("../testdata/stock-batching.yaml")}
	for name, tc := range map[string]struct {
		setup Setup
		want  bool
	}{"as it comes": {stock, false}, "without default spreading": {batching, true}} {
		t.Run(name, func(t *testing.T) {
			fleet := load.Fleet{Nodes: 100, Pools: 1}
			p := newPlacer(t, fleet, tc.setup)
			before := placedByBatch(t)
			const pods = 20
			for i := range pods {
				pod := fleet.Pod(i*fleet.Cells(), 1)
				pod.UID = types.UID(fmt.Sprint("uid-", i))
				if got := p.SignsPod(t.Context(), pod); got != tc.want {
					t.Fatalf("pods are taken for equal: %t, want %t", got, tc.want)
				}
				if err := p.Place(t.Context(), pod); err != nil {
					t.Fatal(err)
				}
			}
			if got := placedByBatch(t) - before; (got > 0) != tc.want {
				t.Errorf("%.0f of %d pods are placed by what was found for the one before, want some: %t", got, pods, tc.want)
			}
		})
	}
}

func placedByBatch(t *testing.T) float64 {
	t.Helper()
	count, err := testutil.GetCounterMetricValue(metrics.BatchAttemptStats.WithLabelValues(names.SchedulerName, metrics.BatchAttemptHintUsed))
	if err != nil {
		t.Fatal(err)
	}
	return count
}

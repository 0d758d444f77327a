package server

import (
	"testing"
	"time"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/render"
	"g8s.host/gpu-scheduler/pkg/workload"
)

// TestARequestLeavesTheDefaultsOfAPool as they are, whatever else it changes.
func TestARequestLeavesTheDefaultsOfAPool(t *testing.T) {
	for _, live := range []names.PoolDefaults{
		{},
		{IdleTimeout: "2h0m0s", MinRuntime: "30m0s", MaxMinRuntime: "0s", CheckpointGrace: "1m0s", MaxCheckpointGrace: "10m0s", GPUShare: "8Gi"},
	} {
		wanted := &workload.Pool{Name: "p"}
		keepDefaults(wanted, live)
		if got := render.GPUPool(wanted).Spec.Defaults; got != live {
			t.Errorf("it says %+v, and said %+v", got, live)
		}
	}
	broken := &workload.Pool{Name: "p"}
	keepDefaults(broken, names.PoolDefaults{MinRuntime: "soon", MaxMinRuntime: time.Hour.String()})
	if broken.MinRuntime != nil || *broken.MaxMinRuntime != time.Hour {
		t.Errorf("of what cannot be read it keeps %+v", broken)
	}
}

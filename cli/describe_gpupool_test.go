package cli

import (
	"testing"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestHowLongPodsOfAPoolAreProtected(t *testing.T) {
	for want, defaults := range map[string]names.PoolDefaults{
		"":                         {},
		"no pod has a min-runtime": {MinRuntime: "1h", MaxMinRuntime: "0s"},
		"pods run for 2h before, and for at most 4h if their job asks for it": {MinRuntime: "2h", MaxMinRuntime: "4h"},
		"pods run for 1h before, and for at most 1h if their job asks for it": {MinRuntime: "2h", MaxMinRuntime: "1h"},
		"pods run for 3h before, and for at most 3h if their job asks for it": {MinRuntime: "3h"},
		"pods run for at most 4h before, if their job asks for it":            {MaxMinRuntime: "4h0m0s"},
	} {
		if got := preemptionProtection(defaults).String(); got != want {
			t.Errorf("%+v: %q, want %q", defaults, got, want)
		}
	}
}

func TestHowLongPodsOfAPoolHaveToSaveTheirWork(t *testing.T) {
	for want, defaults := range map[string]names.PoolDefaults{
		"": {MinRuntime: "1h"},
		"no pod has time to save its work before":                                          {CheckpointGrace: "1m", MaxCheckpointGrace: "0s"},
		"pods have 2m to save their work before, and at most 5m if their job asks for it":  {CheckpointGrace: "2m"},
		"pods have 2m to save their work before, and at most 10m if their job asks for it": {CheckpointGrace: "2m", MaxCheckpointGrace: "10m"},
		"pods have 1m to save their work before, and at most 1m if their job asks for it":  {CheckpointGrace: "2m", MaxCheckpointGrace: "1m"},
		"pods have at most 10m to save their work before, if their job asks for it":        {MaxCheckpointGrace: "10m"},
	} {
		if got := checkpointGraceText(defaults).String(); got != want {
			t.Errorf("%+v: %q, want %q", defaults, got, want)
		}
	}
}

package cli

import (
	"testing"

	"g8s.host/gpu-scheduler/pkg/submit"
)

// TestWhatAJobWaitsForAgain are the jobs that it starts after, before it asks for any GPU.
func TestWhatAJobWaitsForAgain(t *testing.T) {
	tests := map[string]submit.Result{
		"":                          {},
		": it waits for 2 GPUs":     {GPUs: 2},
		": it waits for prep":       {GPUs: 2, WaitsFor: []string{"prep"}},
		": it waits for prep, eval": {WaitsFor: []string{"prep", "eval"}},
	}
	for want, result := range tests {
		if got := waitingText(result).String(); got != want {
			t.Errorf("of %+v it says %q, want %q", result, got, want)
		}
	}
	if got, want := releasedText(submit.Result{GPUs: 64}).String(), ": its 64 GPUs are released as its pods end"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
}

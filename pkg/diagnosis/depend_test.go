package diagnosis

import (
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/inventory"
)

// TestWhatNobodyReadsIsTold: a job whose list of others is longer than any that is read starts when it is resumed.
func TestWhatNobodyReadsIsTold(t *testing.T) {
	f := unborn("", func(f *Facts) {
		f.Job.Trouble = inventory.Trouble{Reason: inventory.ReasonWaitsForJobs, Message: "nothing lets it start: why"}
	})
	got := waitsForJobs(&f).WithText()
	if got.Text != "nothing lets it start: why" || len(got.Steps) != 1 || !strings.HasPrefix(got.Steps[0].Command, "gpuctl resume train") {
		t.Errorf("it is told as %q, with %+v", got.Text, got.Steps)
	}
}

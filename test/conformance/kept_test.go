package conformance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestARunGoesOn where an earlier one of the same programs ended, and begins again where ours has changed. Stock has not, then.
func TestARunGoesOn(t *testing.T) {
	root := t.TempDir()
	b := &Built{root: root, programs: filepath.Join(root, "bin/conformance/programs"), upstream: "v1", Took: map[string]time.Duration{}}
	if err := os.MkdirAll(b.programs, 0o700); err != nil {
		t.Fatal(err)
	}
	build := func(content string) {
		if err := os.WriteFile(b.program("preemption/misc"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build("one")
	ran := Results{{"preemption/misc", "TestA"}: {Action: pass}, {"preemption/misc", "TestA/b"}: {Action: skip, Said: "late"}, {"other", "TestC"}: {Action: fail}}
	for _, scheduler := range []string{Ours, Stock} {
		if b.takeOver(scheduler, "preemption/misc", Results{}) {
			t.Errorf("%s: a suite that was never run is taken over", scheduler)
		}
		if err := b.keep(scheduler, "preemption/misc", ran, time.Minute); err != nil {
			t.Fatal(err)
		}
		got := Results{}
		if !b.takeOver(scheduler, "preemption/misc", got) || b.Took[scheduler+" preemption/misc"] != time.Minute {
			t.Errorf("%s: a suite that was run is not taken over; took %v", scheduler, b.Took)
		}
		want := Results{{"preemption/misc", "TestA"}: {Action: pass}, {"preemption/misc", "TestA/b"}: {Action: skip, Said: "late"}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", scheduler, diff)
		}
	}
	build("two")
	if b.takeOver(Ours, "preemption/misc", Results{}) || !b.takeOver(Stock, "preemption/misc", Results{}) {
		t.Error("with other programs ours is to run again, and stock is not")
	}
}

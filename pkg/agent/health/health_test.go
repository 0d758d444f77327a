package health

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

var update = flag.Bool("update", false, "write testdata/xid.txt")

// TestXIDs writes out the class of each code that drivers know, so that a change of the table is seen.
func TestXIDs(t *testing.T) {
	var got strings.Builder
	for code := uint64(1); code <= 172; code++ {
		fmt.Fprintf(&got, "%d %s\n", code, ClassOf(code))
	}
	const golden = "testdata/xid.txt"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("classes (-want +got):\n%s", diff)
	}
}

// TestErrorsOfProgramsTakeNoCardOut: device plugins that take a card out for these lose it for ever.
func TestErrorsOfProgramsTakeNoCardOut(t *testing.T) {
	for _, xid := range []uint64{13, 31, 43, 45, 63, 68, 69, 92, 94, 9999} {
		tracker := NewTracker(time.Minute)
		tracker.Observe([]hardware.Card{{UUID: "A"}}, time.Time{})
		tracker.Event(hardware.Event{UUID: "A", XID: xid}, time.Time{})
		if health := tracker.Of("A"); health != gpu.Healthy {
			t.Errorf("XID %d: card is %s", xid, health)
		}
	}
}

// TestTracker follows a card through a story of steps: at each, what is reported and what the card then is.
func TestTracker(t *testing.T) {
	const quiet = 10 * time.Minute
	well := hardware.Signs{}
	knows := hardware.Signs{RecoveryKnown: true}
	type step struct {
		at    time.Duration
		xid   uint64
		signs hardware.Signs
		want  string
	}
	for name, story := range map[string][]step{
		"a card falls off the bus, and stays out until the machine restarts": {
			{0, 0, well, gpu.Healthy}, {time.Second, 79, well, "Xid79"}, {time.Hour, 0, well, "Xid79"}, {100 * time.Hour, 0, well, "Xid79"},
		},
		"the driver's verdict ends a lasting fault, after a quiet time": {
			{0, 95, knows, "Xid95"}, {9 * time.Minute, 0, knows, "Xid95"}, {10 * time.Minute, 0, knows, gpu.Healthy},
		},
		"the driver asks for a reset, gets it, and the card comes back": {
			{0, 95, well, "Xid95"}, {time.Second, 0, hardware.Signs{RecoveryKnown: true, Recovery: hardware.RecoveryReset}, "Xid95"},
			{time.Hour, 0, hardware.Signs{RecoveryKnown: true, Recovery: hardware.RecoveryReset}, "Xid95"},
			{time.Hour + time.Minute, 0, knows, "Xid95"}, {time.Hour + 12*time.Minute, 0, knows, gpu.Healthy},
		},
		"the verdict alone": {
			{0, 154, hardware.Signs{RecoveryKnown: true, Recovery: hardware.RecoveryReboot}, RebootRequired},
		},
		"a card that does not answer, and then does": {
			{0, 0, hardware.Signs{Lost: true}, Lost}, {time.Minute, 0, well, Lost}, {10 * time.Minute, 0, well, gpu.Healthy},
		},
		"a card that fails again and again goes out once": {
			{0, 0, hardware.Signs{LinksDown: 1}, NVLinkDown}, {9 * time.Minute, 0, well, NVLinkDown}, {9*time.Minute + 1, 0, hardware.Signs{LinksDown: 1}, NVLinkDown},
			{18 * time.Minute, 0, well, NVLinkDown}, {19*time.Minute + 1, 0, well, gpu.Healthy},
		},
		"a peak of heat": {
			{0, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy}, {29 * time.Second, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy},
			{30 * time.Second, 0, well, gpu.Healthy}, {31 * time.Second, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy},
		},
		"lasting heat": {
			{0, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy}, {30 * time.Second, 0, hardware.Signs{ThermalSlowdown: true}, TooHot},
		},
		"no spare row":              {{0, 0, hardware.Signs{RowRemapFailed: true}, RowRemapFailed}},
		"a spare row is used later": {{0, 0, hardware.Signs{RowRemapPending: true}, gpu.Healthy}},
		"the first of two faults is told": {
			{0, 0, hardware.Signs{Lost: true}, Lost}, {time.Second, 79, hardware.Signs{Lost: true}, Lost}, {time.Hour, 0, well, "Xid79"},
		},
		"a clock that goes backwards": {{time.Hour, 0, hardware.Signs{Lost: true}, Lost}, {0, 0, well, Lost}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			tracker := NewTracker(quiet)
			for _, step := range story {
				now := begin.Add(step.at)
				if step.xid != 0 {
					tracker.Event(hardware.Event{UUID: "A", XID: step.xid}, now)
				}
				tracker.Observe([]hardware.Card{{UUID: "A", Signs: step.signs}}, now)
				if got := tracker.Of("A"); got != step.want {
					t.Fatalf("after %s the card is %s, want %s", step.at, got, step.want)
				}
				if got := tracker.Of("B"); got != gpu.Healthy {
					t.Fatalf("another card is %s", got)
				}
			}
		})
	}
}

// TestAnEventOfAllCards: errors of an NVSwitch name no card.
func TestAnEventOfAllCards(t *testing.T) {
	tracker := NewTracker(time.Minute)
	tracker.Observe([]hardware.Card{{UUID: "A"}, {UUID: "B"}}, time.Time{})
	tracker.Event(hardware.Event{XID: 74}, time.Time{})
	for _, uuid := range []string{"A", "B"} {
		if got := tracker.Of(uuid); got != "Xid74" {
			t.Errorf("card %s is %s", uuid, got)
		}
	}
}

// TestANewProcessKnowsLastingFaults: an agent that restarts would else give a broken card out.
func TestANewProcessKnowsLastingFaults(t *testing.T) {
	before := NewTracker(time.Minute)
	before.Observe([]hardware.Card{{UUID: "A"}, {UUID: "B", Signs: hardware.Signs{Lost: true}}}, time.Time{})
	before.Event(hardware.Event{UUID: "A", XID: 79}, time.Time{})
	if diff := cmp.Diff(map[string][]string{"A": {"Xid79"}}, before.Faults()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	after := NewTracker(time.Minute)
	after.Restore(before.Faults(), time.Time{})
	after.Observe([]hardware.Card{{UUID: "A"}}, time.Time{}.Add(time.Hour))
	if got := after.Of("A"); got != "Xid79" {
		t.Errorf("card A is %s", got)
	}
}

package health

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
)

// TestErrorsOfProgramsTakeNoCardOut: device plugins that take a card out for these lose it forever.
func TestErrorsOfProgramsTakeNoCardOut(t *testing.T) {
	for _, xid := range []uint64{13, 31, 43, 45, 63, 68, 69, 92, 94, 9999} {
		tracker := NewTracker(time.Minute)
		tracker.ObserveGPUs([]hardware.GPU{{UUID: "A"}}, time.Time{})
		tracker.RecordEvent(hardware.Event{UUID: "A", XID: xid}, time.Time{})
		if health := tracker.StatusOf("A"); health != gpu.Healthy {
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
			{0, 154, hardware.Signs{RecoveryKnown: true, Recovery: hardware.RecoveryReboot}, fault.RebootRequired},
		},
		"a card that does not answer, and then does": {
			{0, 0, hardware.Signs{Lost: true}, fault.Lost}, {time.Minute, 0, well, fault.Lost}, {10 * time.Minute, 0, well, gpu.Healthy},
		},
		"a card that fails again and again goes out once": {
			{0, 0, hardware.Signs{LinksDown: 1}, fault.NVLinkDown}, {9 * time.Minute, 0, well, fault.NVLinkDown}, {9*time.Minute + 1, 0, hardware.Signs{LinksDown: 1}, fault.NVLinkDown},
			{18 * time.Minute, 0, well, fault.NVLinkDown}, {19*time.Minute + 1, 0, well, gpu.Healthy},
		},
		"a peak of heat": {
			{0, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy}, {29 * time.Second, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy},
			{30 * time.Second, 0, well, gpu.Healthy}, {31 * time.Second, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy},
		},
		"lasting heat": {
			{0, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy}, {30 * time.Second, 0, hardware.Signs{ThermalSlowdown: true}, fault.TooHot},
		},
		"an error that passes": {
			{0, 0, hardware.Signs{Failing: true}, gpu.Healthy}, {9 * time.Second, 0, hardware.Signs{Failing: true}, gpu.Healthy},
			{10 * time.Second, 0, well, gpu.Healthy}, {11 * time.Second, 0, hardware.Signs{Failing: true}, gpu.Healthy},
		},
		"an error that stays, until it does not": {
			{0, 0, hardware.Signs{Failing: true}, gpu.Healthy}, {10 * time.Second, 0, hardware.Signs{Failing: true}, fault.Lost},
			{time.Minute, 0, well, fault.Lost}, {time.Hour, 0, well, gpu.Healthy},
		},
		"no spare row":              {{0, 0, hardware.Signs{RowRemapFailed: true}, fault.RowRemapFailed}},
		"a spare row is used later": {{0, 0, hardware.Signs{RowRemapPending: true}, gpu.Healthy}},
		"what only a reset mends is told before what may pass": {
			{0, 0, hardware.Signs{Lost: true}, fault.Lost}, {time.Second, 79, hardware.Signs{Lost: true}, "Xid79"}, {time.Hour, 0, well, "Xid79"},
		},
		"a card that is too hot, and then asks for a reset": {
			{0, 0, hardware.Signs{ThermalSlowdown: true}, gpu.Healthy}, {30 * time.Second, 0, hardware.Signs{ThermalSlowdown: true}, fault.TooHot},
			{time.Minute, 0, hardware.Signs{ThermalSlowdown: true, RecoveryKnown: true, Recovery: hardware.RecoveryReset}, fault.ResetRequired},
		},
		"the first of two faults is told": {
			{0, 0, hardware.Signs{LinksDown: 1}, fault.NVLinkDown}, {time.Second, 0, hardware.Signs{LinksDown: 1, Lost: true}, fault.NVLinkDown},
		},
		"the first of two that only a reset mends, too": {{0, 95, well, "Xid95"}, {time.Second, 79, well, "Xid95"}},
		"suspect errors now and then": {
			{0, 144, well, gpu.Healthy}, {40 * time.Minute, 9999, well, gpu.Healthy}, {time.Hour + time.Second, 144, well, gpu.Healthy}, {2 * time.Hour, 144, well, gpu.Healthy},
		},
		"suspect errors again and again, until there are fewer and a quiet time is over": {
			{0, 144, well, gpu.Healthy}, {10 * time.Minute, 9999, well, gpu.Healthy}, {20 * time.Minute, 145, well, fault.RepeatedErrors},
			{59 * time.Minute, 0, well, fault.RepeatedErrors}, {time.Hour, 0, well, fault.RepeatedErrors}, {time.Hour + 9*time.Minute, 0, well, gpu.Healthy},
		},
		"suspect errors of one incident": {
			{0, 144, well, gpu.Healthy}, {time.Second, 145, well, gpu.Healthy}, {2 * time.Second, 146, well, gpu.Healthy},
			{59 * time.Second, 147, well, gpu.Healthy}, {30 * time.Minute, 144, well, gpu.Healthy}, {59 * time.Minute, 144, well, fault.RepeatedErrors},
		},
		"errors of programs, however many": {
			{0, 31, well, gpu.Healthy}, {1, 31, well, gpu.Healthy}, {2, 13, well, gpu.Healthy}, {3, 31, well, gpu.Healthy}, {4, 43, well, gpu.Healthy},
		},
		"a clock that goes backwards": {{time.Hour, 0, hardware.Signs{Lost: true}, fault.Lost}, {0, 0, well, fault.Lost}},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			tracker := NewTracker(quiet)
			var before step
			for _, step := range story {
				now := begin.Add(step.at)
				if step.signs == before.signs && (step.signs.Failing || step.signs.ThermalSlowdown) { // it was seen all the time
					for at := before.at; at < step.at; at += time.Second {
						tracker.ObserveGPUs([]hardware.GPU{{UUID: "A", Signs: step.signs}}, begin.Add(at))
					}
				}
				before = step
				if step.xid != 0 {
					tracker.RecordEvent(hardware.Event{UUID: "A", XID: step.xid}, now)
				}
				tracker.ObserveGPUs([]hardware.GPU{{UUID: "A", Signs: step.signs}}, now)
				if got := tracker.StatusOf("A"); got != step.want {
					t.Fatalf("after %s the card is %s, want %s", step.at, got, step.want)
				}
				if got := tracker.StatusOf("B"); got != gpu.Healthy {
					t.Fatalf("another card is %s", got)
				}
			}
		})
	}
}

// TestAnAgentThatStoodStill has seen a card fail before and after, and nothing between: one look more is no reason to take it out.
func TestAnAgentThatStoodStill(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	tracker := NewTracker(time.Minute)
	for _, still := range []time.Duration{0, time.Second, time.Minute, time.Hour} {
		now = now.Add(still)
		tracker.ObserveGPUs([]hardware.GPU{{UUID: "A", Signs: hardware.Signs{Failing: true, ThermalSlowdown: true}}}, now)
		if got := tracker.StatusOf("A"); got != gpu.Healthy {
			t.Errorf("after it stood still for %s the card is %s", still, got)
		}
	}
	for range int(failingFor / time.Second) {
		now = now.Add(time.Second)
		tracker.ObserveGPUs([]hardware.GPU{{UUID: "A", Signs: hardware.Signs{Failing: true}}}, now)
	}
	if got := tracker.StatusOf("A"); got != fault.Lost {
		t.Errorf("a card that failed all the time since is %s", got)
	}
}

// TestAnEventOfAllCards: errors of an NVSwitch name no card.
func TestAnEventOfAllCards(t *testing.T) {
	tracker := NewTracker(time.Minute)
	tracker.ObserveGPUs([]hardware.GPU{{UUID: "A"}, {UUID: "B"}}, time.Time{})
	tracker.RecordEvent(hardware.Event{XID: 74}, time.Time{})
	for _, uuid := range []string{"A", "B"} {
		if got := tracker.StatusOf(uuid); got != "Xid74" {
			t.Errorf("card %s is %s", uuid, got)
		}
	}
}

// TestSuspectErrorsOfNobodyKnownAreNoCardsFault: a card that is just being lost has no name any more.
func TestSuspectErrorsOfNobodyKnownAreNoCardsFault(t *testing.T) {
	tracker, now := NewTracker(time.Minute), time.Time{}
	tracker.ObserveGPUs([]hardware.GPU{{UUID: "A"}}, now)
	for range 2 * repeats {
		tracker.RecordEvent(hardware.Event{XID: 144}, now)
		now = now.Add(2 * incident)
	}
	if got := tracker.StatusOf("A"); got != gpu.Healthy {
		t.Errorf("the card is %s", got)
	}
}

// TestANewProcessKnowsLastingFaults: an agent that restarts would else give a broken card out.
func TestANewProcessKnowsLastingFaults(t *testing.T) {
	before := NewTracker(time.Minute)
	before.ObserveGPUs([]hardware.GPU{{UUID: "A"}, {UUID: "B", Signs: hardware.Signs{Lost: true}}}, time.Time{})
	before.RecordEvent(hardware.Event{UUID: "A", XID: 79}, time.Time{})
	if diff := cmp.Diff(map[string][]string{"A": {"Xid79"}}, before.LastingFaults()); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	after := NewTracker(time.Minute)
	after.RestoreFaults(before.LastingFaults(), time.Time{})
	after.ObserveGPUs([]hardware.GPU{{UUID: "A"}}, time.Time{}.Add(time.Hour))
	if got := after.StatusOf("A"); got != "Xid79" {
		t.Errorf("card A is %s", got)
	}
}

// Package health decides which GPUs may be allocated, from what the driver reports. It is pure: events, signs and the time go in.
//
// A GPU is taken out at once and returned late, after no fault for a while. So a GPU that fails again and again goes out once, and not each time.
package health

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/gpu/fault"
)

// slowdownFor is how long a GPU must be slowed down by heat, without a break, to be taken out. Peaks are normal.
const slowdownFor = 30 * time.Second

// failingFor is how long a GPU must answer with errors, without a break, to count as lost.
const failingFor = 10 * time.Second

// longestLook is the most that the time between two looks counts for. An agent that stood still between them has seen nothing meanwhile.
const longestLook = 2 * time.Second

// repeats is how many suspect errors within repeatedIn take a GPU out, though none of them alone does. Errors of programs never count: otherwise a
// program that fails in a loop would take out GPU after GPU.
const (
	repeats    = 3
	repeatedIn = time.Hour
	// incident is how far apart suspect errors must be to count as several: one fault causes many reports at once.
	incident = time.Minute
)

// Tracker tracks the faults of each GPU. It is not safe for concurrent use.
type Tracker struct {
	// quiet is how long a GPU must be healthy before it is allocated again.
	quiet time.Duration
	gpus  map[string]*gpuState
	// looked is when the GPUs were last observed, and watched for how long they have been.
	looked  time.Time
	watched time.Duration
}

type gpuState struct {
	faults map[string]*faultRecord
	// hot is while the GPU is slowed down by heat, and failing while it answers with errors.
	hot, failing spell
	// suspects are the times of its last suspect errors, no more than [repeats].
	suspects []time.Time
}

type faultRecord struct {
	// begun orders the faults of a GPU.
	begun time.Time
	// seen is when the fault was last there.
	seen time.Time
	// lasting faults were announced by an XID, and no sign shows when they are over. The driver's verdict does, if there is one, else a restart of
	// the machine.
	lasting bool
}

// NewTracker returns a tracker of GPUs that are well.
func NewTracker(quiet time.Duration) *Tracker {
	return &Tracker{quiet: quiet, gpus: map[string]*gpuState{}}
}

func (t *Tracker) trackedGPU(uuid string) *gpuState {
	if t.gpus[uuid] == nil {
		t.gpus[uuid] = &gpuState{faults: map[string]*faultRecord{}}
	}
	return t.gpus[uuid]
}

func (c *gpuState) recordFault(word string, now time.Time, lasting bool) {
	f := c.faults[word]
	if f == nil {
		f = &faultRecord{begun: now}
		c.faults[word] = f
	}
	f.seen, f.lasting = now, f.lasting || lasting
}

// RecordEvent records an error. It returns the error's class.
func (t *Tracker) RecordEvent(event hardware.Event, now time.Time) fault.Class {
	class := fault.ClassOf(event.XID)
	if event.UUID != "" {
		t.trackedGPU(event.UUID).recordEvent(event.XID, class, now)
		return class
	}
	if class.TakesOut() { // the number of suspect errors per GPU is unknown
		for _, card := range t.gpus {
			card.recordEvent(event.XID, class, now)
		}
	}
	return class
}

func (c *gpuState) recordEvent(xid uint64, class fault.Class, now time.Time) {
	switch {
	case class.TakesOut():
		c.recordFault(fault.XIDWord(xid), now, true)
	case class == fault.Suspect:
		if n := len(c.suspects); n > 0 && now.Sub(c.suspects[n-1]) < incident {
			return // one incident causes several errors
		}
		c.suspects = append(c.suspects, now)
		c.suspects = c.suspects[max(0, len(c.suspects)-repeats):]
		if c.isRepeating(now) {
			c.recordFault(fault.RepeatedErrors, now, false)
		}
	}
}

// isRepeating reports whether a GPU recently had too many suspect errors.
func (c *gpuState) isRepeating(now time.Time) bool {
	return len(c.suspects) == repeats && now.Sub(c.suspects[0]) < repeatedIn
}

// ObserveGPUs records the state of all GPUs.
func (t *Tracker) ObserveGPUs(cards []hardware.GPU, now time.Time) {
	if !t.looked.IsZero() {
		t.watched += min(max(now.Sub(t.looked), 0), longestLook)
	}
	t.looked = now
	for i := range cards {
		c := t.trackedGPU(cards[i].UUID)
		for _, word := range c.faultWords(&cards[i].Signs, now, t.watched) {
			c.recordFault(word, now, false)
		}
		c.dropExpired(&cards[i].Signs, now, t.quiet)
	}
}

// faultWords returns what the signs say is wrong.
func (c *gpuState) faultWords(signs *hardware.Signs, now time.Time, watched time.Duration) []string {
	var words []string
	say := func(wrong bool, word string) {
		if wrong {
			words = append(words, word)
		}
	}
	say(signs.Lost || c.failing.hasLasted(signs.Failing, failingFor, watched), fault.Lost)
	say(signs.Recovery == hardware.RecoveryReset, fault.ResetRequired)
	say(signs.Recovery == hardware.RecoveryReboot, fault.RebootRequired)
	say(signs.RowRemapFailed, fault.RowRemapFailed)
	say(signs.LinksDown > 0, fault.NVLinkDown)
	say(c.isRepeating(now), fault.RepeatedErrors)
	say(c.hot.hasLasted(signs.ThermalSlowdown, slowdownFor, watched), fault.TooHot)
	return words
}

// spell is something seen at every look since some time.
type spell struct {
	on    bool
	begun time.Duration
}

// hasLasted records whether it is still seen, and reports whether it has been for long enough of the time watched.
func (s *spell) hasLasted(is bool, long, watched time.Duration) bool {
	if is && !s.on {
		s.begun = watched
	}
	s.on = is
	return is && watched-s.begun >= long
}

// dropExpired drops faults that have been over for long enough.
func (c *gpuState) dropExpired(signs *hardware.Signs, now time.Time, quiet time.Duration) {
	for word, f := range c.faults {
		if f.lasting && signs.RecoveryKnown && signs.Recovery == hardware.RecoveryNone && !signs.Lost && !signs.Failing {
			f.lasting, f.seen = false, now
		}
		if !f.lasting && !f.seen.Equal(now) && now.Sub(f.seen) >= quiet {
			delete(c.faults, word)
		}
	}
}

// StatusOf returns [gpu.Healthy], or one word for the fault of a GPU. Faults that only a reset repairs come before those that may pass, as pods are evicted
// for them; then the earliest comes first. A GPU that falls off the bus may be lost before its XID arrives.
func (t *Tracker) StatusOf(uuid string) string {
	c := t.gpus[uuid]
	if c == nil || len(c.faults) == 0 {
		return gpu.Healthy
	}
	words := slices.SortedFunc(maps.Keys(c.faults), func(a, b string) int {
		if worse := fault.OnlyResetMends(a); worse != fault.OnlyResetMends(b) {
			if worse {
				return -1
			}
			return 1
		}
		return cmp.Or(c.faults[a].begun.Compare(c.faults[b].begun), cmp.Compare(a, b))
	})
	return words[0]
}

// LastingFaults returns the lasting faults, by UUID. A new process must know them, as no sign shows them.
func (t *Tracker) LastingFaults() map[string][]string {
	faults := map[string][]string{}
	for uuid, c := range t.gpus {
		for word, f := range c.faults {
			if f.lasting {
				faults[uuid] = append(faults[uuid], word)
			}
		}
		slices.Sort(faults[uuid])
	}
	return faults
}

// RestoreFaults adopts the lasting faults of a previous process.
func (t *Tracker) RestoreFaults(faults map[string][]string, now time.Time) {
	for uuid, words := range faults {
		for _, word := range words {
			t.trackedGPU(uuid).recordFault(word, now, true)
		}
	}
}

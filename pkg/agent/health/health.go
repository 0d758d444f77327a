// Package health decides which cards may be given out, from what the driver reports of them. It is pure: events, signs and
// the time go in.
//
// A card is taken out at once, and given back late: when nothing has been wrong with it for a while. So a card that fails
// again and again goes out once, and not each time.
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

// hotFor is how long a card must be slowed down by heat, without a break, to be taken out. Peaks are normal.
const hotFor = 30 * time.Second

// failingFor is how long a card must answer with errors, without a break, to be taken for lost.
const failingFor = 10 * time.Second

// repeats is how many suspect errors within repeatedIn take a card out, none of which does alone. Errors of programs never count:
// a program that fails in a loop would take card after card away from everybody.
const (
	repeats    = 3
	repeatedIn = time.Hour
	// incident is how far apart suspect errors are that count as several: one fault is told of by many at once.
	incident = time.Minute
)

// Tracker remembers what is wrong with each card. It is not safe for concurrent use.
type Tracker struct {
	// quiet is how long a card must be well before it is given out again.
	quiet time.Duration
	cards map[string]*card
}

type card struct {
	faults map[string]*flaw
	// hotSince is when the card was first seen slowed down by heat, zero while it is not.
	hotSince time.Time
	// failingSince is when it first answered with an error, zero when it last answered.
	failingSince time.Time
	// suspects are when its last suspect errors were, no more than [repeats].
	suspects []time.Time
}

type flaw struct {
	// begun orders the faults of a card.
	begun time.Time
	// seen is when the fault was last there.
	seen time.Time
	// lasting faults were announced by an XID, and no sign tells when they are over: the driver's verdict does, where it
	// has one, else a restart of the machine.
	lasting bool
}

// NewTracker returns a tracker of cards that are well.
func NewTracker(quiet time.Duration) *Tracker {
	return &Tracker{quiet: quiet, cards: map[string]*card{}}
}

func (t *Tracker) card(uuid string) *card {
	if t.cards[uuid] == nil {
		t.cards[uuid] = &card{faults: map[string]*flaw{}}
	}
	return t.cards[uuid]
}

func (c *card) see(word string, now time.Time, lasting bool) {
	f := c.faults[word]
	if f == nil {
		f = &flaw{begun: now}
		c.faults[word] = f
	}
	f.seen, f.lasting = now, f.lasting || lasting
}

// Event takes note of an error. It returns the error's class.
func (t *Tracker) Event(event hardware.Event, now time.Time) fault.Class {
	class := fault.ClassOf(event.XID)
	if event.UUID != "" {
		t.card(event.UUID).event(event.XID, class, now)
		return class
	}
	if class.TakesOut() { // whose suspect errors are many is not known
		for _, card := range t.cards {
			card.event(event.XID, class, now)
		}
	}
	return class
}

func (c *card) event(xid uint64, class fault.Class, now time.Time) {
	switch {
	case class.TakesOut():
		c.see(fault.Xid(xid), now, true)
	case class == fault.Suspect:
		if n := len(c.suspects); n > 0 && now.Sub(c.suspects[n-1]) < incident {
			return // one incident is told of by several errors
		}
		c.suspects = append(c.suspects, now)
		c.suspects = c.suspects[max(0, len(c.suspects)-repeats):]
		if c.isRepeating(now) {
			c.see(fault.RepeatedErrors, now, false)
		}
	}
}

// isRepeating reports whether a card had too many suspect errors of late.
func (c *card) isRepeating(now time.Time) bool {
	return len(c.suspects) == repeats && now.Sub(c.suspects[0]) < repeatedIn
}

// Observe takes note of how all cards are.
func (t *Tracker) Observe(cards []hardware.Card, now time.Time) {
	for i := range cards {
		c := t.card(cards[i].UUID)
		for _, word := range c.words(&cards[i].Signs, now) {
			c.see(word, now, false)
		}
		c.forget(&cards[i].Signs, now, t.quiet)
	}
}

// words returns what the signs say is wrong.
func (c *card) words(signs *hardware.Signs, now time.Time) []string {
	var words []string
	say := func(wrong bool, word string) {
		if wrong {
			words = append(words, word)
		}
	}
	say(signs.Lost || lasts(&c.failingSince, signs.Failing, failingFor, now), fault.Lost)
	say(signs.Recovery == hardware.RecoveryReset, fault.ResetRequired)
	say(signs.Recovery == hardware.RecoveryReboot, fault.RebootRequired)
	say(signs.RowRemapFailed, fault.RowRemapFailed)
	say(signs.LinksDown > 0, fault.NVLinkDown)
	say(c.isRepeating(now), fault.RepeatedErrors)
	say(lasts(&c.hotSince, signs.ThermalSlowdown, hotFor, now), fault.TooHot)
	return words
}

// lasts reports whether something has been so for long enough. since is when it began, and is kept here.
func lasts(since *time.Time, is bool, long time.Duration, now time.Time) bool {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
	return is && now.Sub(*since) >= long
}

// forget drops faults that are over and have been for long enough.
func (c *card) forget(signs *hardware.Signs, now time.Time, quiet time.Duration) {
	for word, f := range c.faults {
		if f.lasting && signs.RecoveryKnown && signs.Recovery == hardware.RecoveryNone && !signs.Lost && !signs.Failing {
			f.lasting, f.seen = false, now
		}
		if !f.lasting && !f.seen.Equal(now) && now.Sub(f.seen) >= quiet {
			delete(c.faults, word)
		}
	}
}

// Of returns [gpu.Healthy], or one word for what is wrong with a card: what only a reset mends before what may pass, as pods leave for that,
// and then what was first. A card that falls off the bus may be lost before its XID is heard.
func (t *Tracker) Of(uuid string) string {
	c := t.cards[uuid]
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

// Faults returns the lasting faults, by UUID: what a new process must know, as no sign tells of them.
func (t *Tracker) Faults() map[string][]string {
	faults := map[string][]string{}
	for uuid, c := range t.cards {
		for word, f := range c.faults {
			if f.lasting {
				faults[uuid] = append(faults[uuid], word)
			}
		}
		slices.Sort(faults[uuid])
	}
	return faults
}

// Restore takes over the lasting faults of a process before.
func (t *Tracker) Restore(faults map[string][]string, now time.Time) {
	for uuid, words := range faults {
		for _, word := range words {
			t.card(uuid).see(word, now, true)
		}
	}
}

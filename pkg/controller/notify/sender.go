package notify

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// firstPause is how long after its first failure a letter is tried again; it doubles up to longestPause.
	firstPause   = 2 * time.Second
	longestPause = time.Minute
	// patience is how long a letter is tried, and at least once.
	patience = 15 * time.Minute
	// remembered is for how long a letter is not taken again that was settled.
	remembered = 10 * time.Minute
	// between is the time between two letters to a channel: Slack takes one a second.
	between = time.Second
	// mostOfNamespace is how many letters of one namespace may wait in a line; with it a line has a bound, as the namespaces of a
	// cluster have.
	mostOfNamespace = 100
	// mostInLine is how many letters may wait in a line altogether.
	mostInLine = 1000
)

// Sender has a line of letters for each channel, each with a goroutine of its own while letters wait in it.
type Sender struct {
	// Address is where a channel leads for a namespace, or why nowhere.
	Address func(ctx context.Context, channel, namespace string) (url string, outcome Outcome)
	// Post calls a receiver once.
	Post func(ctx context.Context, url string, body []byte) Outcome
	// Called is told what became of a call of a channel that there is.
	Called func(channel string, outcome Outcome)
	// Settled is told what became of a letter.
	Settled func(ctx context.Context, letter *Letter, outcome Outcome)
	Clock   clock.Clock

	mu    sync.Mutex
	lines map[string]*line
	// known are the letters that wait or are under way, with the zero time, and those that were settled, with when that is forgotten:
	// whoever offers them again has not seen the note of it yet.
	known  map[string]time.Time
	closed bool
	done   sync.WaitGroup
}

// line is what waits for one channel. Namespaces take turns.
type line struct {
	turns []string
	waits map[string][]*queued
	count int
}

type queued struct {
	*Letter
	since time.Time
}

// Offer puts a letter in the line of its channel, once however often it is offered. It reports false when there is no room: the
// letter is to be offered again later. It never waits.
func (s *Sender) Offer(ctx context.Context, letter *Letter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.known[letter.key()]; known || s.closed {
		return true
	}
	at, works := s.lines[letter.Channel]
	if !works {
		at = &line{waits: map[string][]*queued{}}
	}
	namespace := letter.Job.Namespace
	if at.count >= mostInLine || len(at.waits[namespace]) >= mostOfNamespace {
		return false
	}
	if len(at.waits[namespace]) == 0 {
		at.turns = append(at.turns, namespace)
	}
	at.waits[namespace] = append(at.waits[namespace], &queued{Letter: letter, since: s.Clock.Now()})
	at.count++
	if s.known == nil {
		s.known, s.lines = map[string]time.Time{}, map[string]*line{}
	}
	s.known[letter.key()] = time.Time{}
	if !works {
		s.lines[letter.Channel] = at
		s.done.Go(func() { s.work(ctx, letter.Channel, at) })
	}
	return true
}

// Close takes no more letters, and waits until nothing is under way any more.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.done.Wait()
}

// next takes the next letter of a line, which is gone when nothing waits in it.
func (s *Sender) next(channel string, at *line) *queued {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.count == 0 {
		delete(s.lines, channel)
		return nil
	}
	namespace := at.turns[0]
	letter := at.waits[namespace][0]
	at.turns, at.waits[namespace] = at.turns[1:], at.waits[namespace][1:]
	at.count--
	if len(at.waits[namespace]) > 0 {
		at.turns = append(at.turns, namespace)
	} else {
		delete(at.waits, namespace)
	}
	return letter
}

// work sends what waits in a line.
func (s *Sender) work(ctx context.Context, channel string, at *line) {
	for letter := s.next(channel, at); letter != nil; letter = s.next(channel, at) {
		outcome, settled := s.deliver(ctx, letter)
		if settled {
			s.Settled(ctx, letter.Letter, outcome)
		}
		s.forget(letter.key())
		if !s.sleep(ctx, between) {
			return
		}
	}
}

// forget has a letter that was settled forgotten in a while, and forgets those of which the time has come.
func (s *Sender) forget(settled string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	s.known[settled] = now.Add(remembered)
	for key, until := range s.known {
		if !until.IsZero() && now.After(until) {
			delete(s.known, key)
		}
	}
}

// deliver tries until a letter is taken, cannot be, or is too old. It is not settled when the program ends.
func (s *Sender) deliver(ctx context.Context, letter *queued) (outcome Outcome, settled bool) {
	body, err := letter.body()
	if err != nil {
		return Outcome{Why: "it cannot be written"}, true
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		url, outcome := s.Address(ctx, letter.Channel, letter.Job.Namespace)
		known := outcome.Why == "" || outcome.Unset
		if outcome.Why == "" {
			outcome = s.Post(ctx, url, body)
		}
		if ctx.Err() != nil {
			return outcome, false
		}
		if known {
			s.Called(letter.Channel, outcome)
		}
		if outcome.Why == "" || !outcome.Again || s.Clock.Since(letter.since)+pause > patience {
			return outcome, true
		}
		if !s.sleep(ctx, pause) {
			return outcome, false
		}
	}
}

// sleep reports false when the program ends.
func (s *Sender) sleep(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.Clock.After(long):
		return true
	}
}

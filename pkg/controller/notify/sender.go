package notify

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// firstPause is the first retry delay of a notification. It doubles up to longestPause.
	firstPause   = 2 * time.Second
	longestPause = time.Minute
	// patience is how long a notification is retried. It is tried at least once.
	patience = 15 * time.Minute
	// remembered is how long a settled notification is not accepted again.
	remembered = 10 * time.Minute
	// between is the interval between two notifications to a channel: Slack accepts one per second.
	between = time.Second
	// mostOfNamespace bounds the queued notifications of one namespace in a channel's queue. With it the queue is bounded, because the namespaces of
	// a cluster are.
	mostOfNamespace = 100
	// mostInLine bounds the queued notifications of a channel.
	mostInLine = 1000
)

// Sender has a queue of notifications for each channel, with its own goroutine while notifications wait.
type Sender struct {
	// Address returns the URL of a channel for a namespace, or why there is none.
	Address func(ctx context.Context, channel, namespace string) (url string, outcome Outcome)
	// Post calls a receiver once.
	Post func(ctx context.Context, url string, body []byte) Outcome
	// Called gets the outcome of each call of an existing channel.
	Called func(channel string, outcome Outcome)
	// Settled gets the final outcome of each notification.
	Settled func(ctx context.Context, letter *Letter, outcome Outcome)
	Clock   clock.Clock

	mu    sync.Mutex
	lines map[string]*line
	// known are the queued notifications and those in flight, with the zero time, and settled ones with their expiry: a caller that offers one again
	// has not seen its record yet.
	known  map[string]time.Time
	closed bool
	done   sync.WaitGroup
}

// line is the queue of one channel. Namespaces alternate.
type line struct {
	turns []string
	waits map[string][]*queued
	count int
}

type queued struct {
	*Letter
	since time.Time
}

// Offer queues a notification once, however often it is offered. It returns false if the queue is full: the caller must offer it again later. It
// never blocks.
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

// Close accepts no more notifications, and waits for those in flight.
func (s *Sender) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.done.Wait()
}

// next returns the next notification of a queue, and removes an empty queue.
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

// work sends the notifications of a queue.
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

// forget lets a settled notification expire later, and removes expired ones.
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

// deliver retries until a notification is delivered, fails permanently, or is too old. It is not settled when the program ends.
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

// sleep returns false when the program ends.
func (s *Sender) sleep(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.Clock.After(long):
		return true
	}
}

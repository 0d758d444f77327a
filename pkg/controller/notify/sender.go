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
	// deliveryTimeout is how long a notification is retried. It is tried at least once.
	deliveryTimeout = 15 * time.Minute
	// settledTTL is how long a settled notification is not accepted again.
	settledTTL = 10 * time.Minute
	// sendInterval is the interval between two notifications to a channel: Slack accepts one per second.
	sendInterval = time.Second
	// maxPerNamespace bounds the queued notifications of one namespace in a channel's queue. With it the queue is bounded, because the namespaces of
	// a cluster are.
	maxPerNamespace = 100
	// maxQueued bounds the queued notifications of a channel.
	maxQueued = 1000
)

// Sender has a queue of notifications for each channel, with its own goroutine while notifications wait.
type Sender struct {
	// Address returns the URL of a channel for a namespace, or why there is none.
	Address func(ctx context.Context, channel, namespace string) (url string, outcome Outcome)
	// Post calls a receiver once.
	Post func(ctx context.Context, url string, body []byte) Outcome
	// OnCall gets the outcome of each call of an existing channel.
	OnCall func(channel string, outcome Outcome)
	// OnSettled gets the final outcome of each notification.
	OnSettled func(ctx context.Context, letter *Notification, outcome Outcome)
	Clock     clock.Clock

	mu     sync.Mutex
	queues map[string]*channelQueue
	// known are the queued notifications and those in flight, with the zero time, and settled ones with their expiry: a caller that offers one again
	// has not seen its record yet.
	known  map[string]time.Time
	closed bool
	done   sync.WaitGroup
}

// channelQueue is the queue of one channel. Namespaces alternate.
type channelQueue struct {
	namespaces []string
	pending    map[string][]*queuedNotification
	count      int
}

type queuedNotification struct {
	*Notification
	since time.Time
}

// Enqueue queues a notification once, however often it is offered. It returns false if the queue is full: the caller must offer it again later. It
// never blocks.
func (s *Sender) Enqueue(ctx context.Context, letter *Notification) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.known[letter.dedupKey()]; known || s.closed {
		return true
	}
	at, works := s.queues[letter.Channel]
	if !works {
		at = &channelQueue{pending: map[string][]*queuedNotification{}}
	}
	namespace := letter.Job.Namespace
	if at.count >= maxQueued || len(at.pending[namespace]) >= maxPerNamespace {
		return false
	}
	if len(at.pending[namespace]) == 0 {
		at.namespaces = append(at.namespaces, namespace)
	}
	at.pending[namespace] = append(at.pending[namespace], &queuedNotification{Notification: letter, since: s.Clock.Now()})
	at.count++
	if s.known == nil {
		s.known, s.queues = map[string]time.Time{}, map[string]*channelQueue{}
	}
	s.known[letter.dedupKey()] = time.Time{}
	if !works {
		s.queues[letter.Channel] = at
		s.done.Go(func() { s.sendQueued(ctx, letter.Channel, at) })
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

// popNext returns the next notification of a queue, and removes an empty queue.
func (s *Sender) popNext(channel string, at *channelQueue) *queuedNotification {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at.count == 0 {
		delete(s.queues, channel)
		return nil
	}
	namespace := at.namespaces[0]
	letter := at.pending[namespace][0]
	at.namespaces, at.pending[namespace] = at.namespaces[1:], at.pending[namespace][1:]
	at.count--
	if len(at.pending[namespace]) > 0 {
		at.namespaces = append(at.namespaces, namespace)
	} else {
		delete(at.pending, namespace)
	}
	return letter
}

// sendQueued sends the notifications of a queue.
func (s *Sender) sendQueued(ctx context.Context, channel string, at *channelQueue) {
	for letter := s.popNext(channel, at); letter != nil; letter = s.popNext(channel, at) {
		outcome, settled := s.deliverNotification(ctx, letter)
		if settled {
			s.OnSettled(ctx, letter.Notification, outcome)
		}
		s.expireSettled(letter.dedupKey())
		if !s.sleepFor(ctx, sendInterval) {
			return
		}
	}
}

// expireSettled lets a settled notification expire later, and removes expired ones.
func (s *Sender) expireSettled(settled string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Clock.Now()
	s.known[settled] = now.Add(settledTTL)
	for key, until := range s.known {
		if !until.IsZero() && now.After(until) {
			delete(s.known, key)
		}
	}
}

// deliverNotification retries until a notification is delivered, fails permanently, or is too old. It is not settled when the program ends.
func (s *Sender) deliverNotification(ctx context.Context, letter *queuedNotification) (outcome Outcome, settled bool) {
	body, err := letter.encodeBody()
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
			s.OnCall(letter.Channel, outcome)
		}
		if outcome.Why == "" || !outcome.Again || s.Clock.Since(letter.since)+pause > deliveryTimeout {
			return outcome, true
		}
		if !s.sleepFor(ctx, pause) {
			return outcome, false
		}
	}
}

// sleepFor returns false when the program ends.
func (s *Sender) sleepFor(ctx context.Context, long time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.Clock.After(long):
		return true
	}
}

package server

import (
	"time"
)

// Limits of stored answers in bytes. A caller's answers are never evicted in favor of a caller that has more.
const (
	maxRemembered     = 32 << 20
	maxRememberedEach = 2 << 20
	// answerOverhead is the memory of an answer beyond its body: its key and map entries.
	answerOverhead = 1 << 10
)

// answerStore stores answers for [keyTTL], within a byte limit per caller and in total. When it is full, it evicts the oldest answers of the caller
// that has the most. It is not safe for concurrent use.
type answerStore struct {
	total, each int
	bytes       int
	answers     map[idempotencyKey]*answer
	// owners hold the keys of their answers, the oldest first.
	owners map[string]*owner
}

type owner struct {
	bytes int
	keys  []idempotencyKey
}

func newAnswerStore(total, each int) *answerStore {
	return &answerStore{total: total, each: each, answers: map[idempotencyKey]*answer{}, owners: map[string]*owner{}}
}

func (m *answerStore) findAnswer(key idempotencyKey, now time.Time) *answer {
	m.dropOld(key.user, now)
	return m.answers[key]
}

// storeAnswer stores the answer of a key that has none.
func (m *answerStore) storeAnswer(key idempotencyKey, a *answer) {
	a.keyLength = len(key.user) + len(key.path) + len(key.key)
	if m.answers[key] != nil || a.memorySize() > m.each {
		return
	}
	own := m.owners[key.user]
	if own == nil {
		own = &owner{}
		m.owners[key.user] = own
	}
	own.keys = append(own.keys, key)
	m.answers[key] = a
	m.addBytes(own, a.memorySize())
	m.dropOld(key.user, a.at)
	for own.bytes > m.each {
		m.dropOldest(key.user)
	}
	for m.bytes > m.total {
		m.dropOldest(m.largestOwner())
	}
}

func (m *answerStore) addBytes(own *owner, size int) {
	own.bytes += size
	m.bytes += size
}

// largestOwner returns the caller that has the most bytes.
func (m *answerStore) largestOwner() string {
	most, found := -1, ""
	for user, own := range m.owners {
		if own.bytes > most {
			most, found = own.bytes, user
		}
	}
	return found
}

// dropOld removes the expired answers of a caller.
func (m *answerStore) dropOld(user string, now time.Time) {
	for {
		own := m.owners[user]
		if own == nil || now.Sub(m.answers[own.keys[0]].at) < keyTTL {
			return
		}
		m.dropOldest(user)
	}
}

func (m *answerStore) dropOldest(user string) {
	own := m.owners[user]
	oldest := own.keys[0]
	m.addBytes(own, -m.answers[oldest].memorySize())
	delete(m.answers, oldest)
	if own.keys = own.keys[1:]; len(own.keys) == 0 {
		delete(m.owners, user)
	}
}

// memorySize returns the memory of an answer and its key, which is stored twice.
func (a *answer) memorySize() int {
	return len(a.body) + len(a.location) + 2*a.keyLength + answerOverhead
}

package server

import (
	"time"
)

// Limits of stored answers in bytes. A caller's answers are never evicted in favor of a caller that has more.
const (
	maxRemembered     = 32 << 20
	maxRememberedEach = 2 << 20
	// rememberedBeside is the memory of an answer beyond its body: its key and map entries.
	rememberedBeside = 1 << 10
)

// remembered stores answers for [keyTTL], within a byte limit per caller and in total. When it is full, it evicts the oldest answers of the caller
// that has the most. It is not safe for concurrent use.
type remembered struct {
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

func newRemembered(total, each int) *remembered {
	return &remembered{total: total, each: each, answers: map[idempotencyKey]*answer{}, owners: map[string]*owner{}}
}

func (m *remembered) get(key idempotencyKey, now time.Time) *answer {
	m.dropOld(key.user, now)
	return m.answers[key]
}

// put stores the answer of a key that has none.
func (m *remembered) put(key idempotencyKey, a *answer) {
	a.keyed = len(key.user) + len(key.path) + len(key.key)
	if m.answers[key] != nil || a.size() > m.each {
		return
	}
	own := m.owners[key.user]
	if own == nil {
		own = &owner{}
		m.owners[key.user] = own
	}
	own.keys = append(own.keys, key)
	m.answers[key] = a
	m.count(own, a.size())
	m.dropOld(key.user, a.at)
	for own.bytes > m.each {
		m.dropOldest(key.user)
	}
	for m.bytes > m.total {
		m.dropOldest(m.largest())
	}
}

func (m *remembered) count(own *owner, size int) {
	own.bytes += size
	m.bytes += size
}

// largest returns the caller that has the most bytes.
func (m *remembered) largest() string {
	most, found := -1, ""
	for user, own := range m.owners {
		if own.bytes > most {
			most, found = own.bytes, user
		}
	}
	return found
}

// dropOld removes the expired answers of a caller.
func (m *remembered) dropOld(user string, now time.Time) {
	for {
		own := m.owners[user]
		if own == nil || now.Sub(m.answers[own.keys[0]].at) < keyLife {
			return
		}
		m.dropOldest(user)
	}
}

func (m *remembered) dropOldest(user string) {
	own := m.owners[user]
	oldest := own.keys[0]
	m.count(own, -m.answers[oldest].size())
	delete(m.answers, oldest)
	if own.keys = own.keys[1:]; len(own.keys) == 0 {
		delete(m.owners, user)
	}
}

// size returns the memory of an answer and its key, which is stored twice.
func (a *answer) size() int { return len(a.body) + len(a.location) + 2*a.keyed + rememberedBeside }

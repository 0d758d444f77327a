package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

// Bounds of sessions. Tokens live in memory alone: a server that restarts asks everybody to sign in again.
const (
	// idleLifetime ends a session that sends no request. A page that is looked at sends one every ten minutes at least.
	idleLifetime = time.Hour
	// absoluteLifetime ends every session, used or not. A token that ends before ends it, too.
	absoluteLifetime = 12 * time.Hour
	// maxSessionsPerUser and maxSessions bound the memory, together with maxToken.
	maxSessionsPerUser = 16
	maxSessions        = 2048
	// maxToken is the size of the longest token in bytes. Those of identity providers with many groups have some thousands.
	maxToken = 8 << 10
)

// session is one signed-in browser.
type session struct {
	user, token string
	began, used time.Time
	// ended ends with the session, and so do the streams that it opened.
	ended context.Context
	end   context.CancelCauseFunc
}

// isOver reports whether a session has reached one of its lifetimes.
func (s *session) isOver(now time.Time) bool {
	return now.Sub(s.used) >= idleLifetime || now.Sub(s.began) >= absoluteLifetime
}

// sessionStore holds the sessions of this replica. It knows hashes of their ids, which are compared in no time that depends on a secret.
type sessionStore struct {
	now func() time.Time
	// over is the cause with which requests end when their session does.
	over error

	mu   sync.Mutex
	byID map[[sha256.Size]byte]*session
}

func newSessionStore(now func() time.Time, over error) *sessionStore {
	return &sessionStore{now: now, over: over, byID: map[[sha256.Size]byte]*session{}}
}

// startSession returns the id of a new session, which is never one that a browser has sent. The session idle for longest gives way where its user, or all
// users together, have as many as they may.
func (s *sessionStore) startSession(user, token string) (id string) {
	id = rand.Text() + rand.Text() // 260 bits
	now := s.now()
	started := &session{user: user, token: token, began: now, used: now}
	started.ended, started.end = context.WithCancelCause(context.Background())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endOverdue(now)
	s.makeRoom(func(other *session) bool { return other.user == user }, maxSessionsPerUser)
	s.makeRoom(func(*session) bool { return true }, maxSessions)
	s.byID[sha256.Sum256([]byte(id))] = started
	return id
}

// findSession returns the session of an id and counts as its use.
func (s *sessionStore) findSession(id string) (*session, bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endOverdue(now)
	found, ok := s.byID[sha256.Sum256([]byte(id))]
	if ok {
		found.used = now
	}
	return found, ok
}

// endSession ends the session of an id, and with everywhere all others of its user.
func (s *sessionStore) endSession(id string, everywhere bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(id))
	found, ok := s.byID[key]
	if !ok {
		return
	}
	s.removeSession(key)
	if !everywhere {
		return
	}
	for other, session := range s.byID {
		if session.user == found.user {
			s.removeSession(other)
		}
	}
}

// endOverdue ends the sessions that have reached one of their lifetimes. The caller holds the lock.
func (s *sessionStore) endOverdue(now time.Time) {
	for key, session := range s.byID {
		if session.isOver(now) {
			s.removeSession(key)
		}
	}
}

// makeRoom ends the session idle for longest among those that match until one more is within the bound. The caller holds the lock.
func (s *sessionStore) makeRoom(matches func(*session) bool, most int) {
	for {
		var oldest [sha256.Size]byte
		count := 0
		for key, session := range s.byID {
			if !matches(session) {
				continue
			}
			if count == 0 || session.used.Before(s.byID[oldest].used) {
				oldest = key
			}
			count++
		}
		if count < most {
			return
		}
		s.removeSession(oldest)
	}
}

// removeSession ends a session and its streams. The caller holds the lock.
func (s *sessionStore) removeSession(key [sha256.Size]byte) {
	s.byID[key].end(s.over)
	delete(s.byID, key)
}

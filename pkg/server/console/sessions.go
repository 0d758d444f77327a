package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
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
	user, owner, token string
	began, used        time.Time
	// ended ends with the session, at [absoluteLifetime] at the latest, and so do the streams that it opened.
	ended context.Context
	end   func()
}

// isOver reports whether a session has reached one of its lifetimes.
func (s *session) isOver(now time.Time) bool {
	return now.Sub(s.used) >= idleLifetime || now.Sub(s.began) >= absoluteLifetime
}

// sessionStore holds the sessions of this replica. It knows hashes of their ids, which are compared in no time that depends on a secret.
type sessionStore struct {
	now func() time.Time
	// over is the cause with which streams end when their session does.
	over error

	mu   sync.Mutex
	byID map[[sha256.Size]byte]*session
}

func newSessionStore(now func() time.Time, over error) *sessionStore {
	return &sessionStore{now: now, over: over, byID: map[[sha256.Size]byte]*session{}}
}

// startSession returns the id of a new session, which is never one that a browser has sent. Where its user has as many as one may, the one idle for longest
// gives way; where all users together have, that of the owner with the most of them.
func (s *sessionStore) startSession(user, token string) (id string) {
	id = rand.Text() + rand.Text() // 260 bits
	now := s.now()
	started := &session{user: user, owner: ownerOf(user), token: token, began: now, used: now}
	lasting, stop := context.WithTimeoutCause(context.Background(), absoluteLifetime, s.over)
	ended, end := context.WithCancelCause(lasting)
	started.ended, started.end = ended, func() { end(s.over); stop() }
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endOverdue(now)
	s.makeRoom(func(other *session) bool { return other.user == user }, maxSessionsPerUser)
	if len(s.byID) >= maxSessions {
		greediest, most := s.findGreediest()
		s.makeRoom(func(other *session) bool { return other.owner == greediest }, most)
	}
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

// ownerOf returns whose sessions those of a user are: ServiceAccounts are their namespace's, which can make any number of them.
func ownerOf(user string) string {
	if namespace, _, err := serviceaccount.SplitUsername(user); err == nil {
		return serviceaccount.MakeUsername(namespace, "")
	}
	return user
}

// findGreediest returns the owner with the most sessions, the first by name of several, and how many they are. The caller holds the lock.
func (s *sessionStore) findGreediest() (owner string, most int) {
	counts := map[string]int{}
	for _, session := range s.byID {
		counts[session.owner]++
	}
	for other, count := range counts {
		if count > most || count == most && other < owner {
			owner, most = other, count
		}
	}
	return owner, most
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
	s.byID[key].end()
	delete(s.byID, key)
}

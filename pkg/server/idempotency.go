package server

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Bounds of the answers stored for idempotency keys.
const (
	keyHeader    = "Idempotency-Key"
	replayHeader = "Idempotency-Replayed"
	maxKeyLength = 255
	keyTTL       = time.Hour
	maxRemember  = 256 << 10
)

// idempotency processes a POST with an Idempotency-Key once, however often a client repeats it after losing the answer. It stores the first success
// and replays it. Concurrent requests with one key wait for the first one. It does not store failures, because they changed nothing.
type idempotency struct {
	now      func() time.Time
	replayed prometheus.Counter

	mu      sync.Mutex
	answers *answerStore
	active  map[idempotencyKey]chan struct{} // closed when the request with the key ends
}

// idempotencyKey is one caller's key for one route, so that no caller gets another caller's answer.
type idempotencyKey struct{ user, path, key string }

// answer is what was replied to a request.
type answer struct {
	request [sha256.Size]byte
	at      time.Time
	status  int
	// kind and location are the Content-Type and Location headers of the answer.
	kind, location string
	body           []byte
	// keyLength is the length of the key.
	keyLength int
}

func newIdempotency(clock func() time.Time, replayed prometheus.Counter) *idempotency {
	return &idempotency{
		now: clock, replayed: replayed, answers: newAnswerStore(maxRemembered, maxRememberedEach), active: map[idempotencyKey]chan struct{}{},
	}
}

func (k *idempotency) withIdempotency(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		value := r.Header.Get(keyHeader)
		caller, err := callerFrom(r.Context())
		if value == "" || r.Method != http.MethodPost || err != nil {
			next.ServeHTTP(w, r)
			return
		}
		if len(value) > maxKeyLength {
			writeFailure(w, r, invalidErrorf("the header %s has %d characters, at most %d are allowed", keyHeader, len(value), maxKeyLength))
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			writeFailure(w, r, &refusal{status: http.StatusRequestEntityTooLarge, code: "TooLarge", text: err.Error()})
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		user := strings.Join([]string{caller.User.GetName(), caller.User.GetUID()}, "\x00")
		k.serveKeyed(w, r, next, idempotencyKey{user, r.URL.RequestURI(), value}, sha256.Sum256(body))
	})
}

func (k *idempotency) serveKeyed(w http.ResponseWriter, r *http.Request, next http.Handler, key idempotencyKey, request [sha256.Size]byte) {
	for {
		known, wait := k.beginRequest(key)
		switch {
		case wait != nil:
			select {
			case <-wait:
				continue
			case <-r.Context().Done():
				return
			}
		case known == nil:
			k.recordAnswer(w, r, next, key, request)
			return
		case known.request != request:
			writeFailure(w, r, invalidErrorf("the %s %q was used for another request: take a new one for each request", keyHeader, key.key))
			return
		}
		k.replayed.Inc()
		known.writeReplay(w)
		return
	}
}

// beginRequest returns the stored answer of a key, or a channel to wait on. If it returns neither, the caller processes the request and then calls
// [idempotency.endRequest].
func (k *idempotency) beginRequest(key idempotencyKey) (*answer, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if running, ok := k.active[key]; ok {
		return nil, running
	}
	if known := k.answers.findAnswer(key, k.now()); known != nil {
		return known, nil
	}
	k.active[key] = make(chan struct{})
	return nil, nil
}

func (k *idempotency) endRequest(key idempotencyKey, a *answer) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if a != nil {
		k.answers.storeAnswer(key, a)
	}
	close(k.active[key])
	delete(k.active, key)
}

// recordAnswer processes a request and stores its answer if it is a success.
func (k *idempotency) recordAnswer(w http.ResponseWriter, r *http.Request, next http.Handler, key idempotencyKey, request [sha256.Size]byte) {
	var success *answer
	defer func() { k.endRequest(key, success) }()
	recorder := &recorder{ResponseWriter: w, status: http.StatusOK}
	next.ServeHTTP(recorder, r)
	if recorder.status < 300 && recorder.body.Len() <= maxRemember {
		success = &answer{
			request: request, at: k.now(), status: recorder.status, body: bytes.Clone(recorder.body.Bytes()),
			kind: w.Header().Get("Content-Type"), location: w.Header().Get("Location"),
		}
	}
}

// writeReplay sends a stored answer again. The request ID is that of the current request.
func (a *answer) writeReplay(w http.ResponseWriter) {
	w.Header().Set("Content-Type", a.kind)
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	w.Header().Set(replayHeader, "true")
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // the client is gone
}

// recorder forwards an answer and keeps a copy. Answers to POST are never streams.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.body.Len() <= maxRemember {
		r.body.Write(p)
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap gives http.ResponseController access to the deadlines.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/serving"
)

// Context keys of a request.
type (
	requestKey struct{}
	callerKey  struct{}
	// reviewKey holds a func(context.Context) error that reviews the request's token again.
	reviewKey struct{}
)

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// callerFrom returns the caller of the request. Every route that is not public has one.
func callerFrom(ctx context.Context) (*access.Caller, error) {
	if caller, ok := ctx.Value(callerKey{}).(*access.Caller); ok {
		return caller, nil
	}
	return nil, errNoCaller
}

// buildHandler registers the routes and wraps them in the middleware that every request passes.
func (s *Server) buildHandler() (http.Handler, error) {
	mux := http.NewServeMux()
	s.api = newAPI(mux, s.options.Version)
	s.registerRoutes()
	if err := s.addDocument(mux); err != nil {
		return nil, err
	}
	public, withSessions, err := s.addConsole(mux, s.publicPatterns())
	if err != nil {
		return nil, err
	}
	s.weigh = weighByRoute(mux, s.weights)
	limits := newLimiter(s.options.Rate, s.options.Burst)
	handler := s.withKeys(mux)
	handler = s.withAuditLog(handler)
	handler = limits.perCaller(handler, s.weigh)
	handler = withSessions(s.withAuthentication(handler, public, mux))
	handler = limits.perAddress(handler)
	handler = s.withLimits(handler)
	handler = withCORS(handler, s.options.Origins)
	handler = serving.EnsureAnswered(serving.ReadInTime(handler), s.writeUnanswered)
	handler = s.withMetrics(handler, mux)
	return s.withRequestID(withLanguage(withEscapedLabelKeys(handler))), nil
}

// withKeys reads the body within its limits, applies the idempotency key, and decodes in a slot of the caller. It frees all slots at the end.
func (s *Server) withKeys(next http.Handler) http.Handler {
	keys := newIdempotency(s.options.Now, s.metrics.replayed)
	return withSlotRelease(s.withAnswerBudget(s.withBodyLimits(keys.withIdempotency(s.withDecodeSlot(next)))))
}

// withAnswerBudget bounds the answers that wait to be read.
func (s *Server) withAnswerBudget(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := "address " + serving.HostOf(r.RemoteAddr)
		if caller, err := callerFrom(r.Context()); err == nil {
			who = caller.User.GetName()
		}
		s.budgets.answers.ServeBounded(w, r, next, who, func(w http.ResponseWriter, err error) {
			status, code, text := http.StatusTooManyRequests, "TooManyRequests", err.Error()
			if r.Method != http.MethodGet && r.Method != http.MethodHead {
				status, code, text = http.StatusServiceUnavailable, "AnswerNotSent", "this was carried out, but its answer is not sent: "+text
			}
			writeFailure(w, r, &refusal{status: status, code: code, text: text})
		})
	})
}

// withRequestID gives each request an ID and limits a panic to its request.
func (s *Server) withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := rand.Text()
		ctx := context.WithValue(r.Context(), requestKey{}, id)
		w.Header().Set("X-Request-Id", id)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause) //nolint:forbidigo // net/http's own way to cut a connection
			}
			s.options.Log.ErrorContext(ctx, "Panic", "requestId", id, "cause", fmt.Sprint(cause), "stack", string(debug.Stack()))
			writeFailure(w, r.WithContext(ctx), errors.New("panic"))
		}()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// writeUnanswered answers for a handler that did not answer.
func (s *Server) writeUnanswered(w http.ResponseWriter, r *http.Request, begun bool) {
	if !begun {
		writeFailure(w, r, &unavailableError{"the connection has ended: nothing was done, send it again on another one"})
		return
	}
	if r.Context().Err() == nil {
		s.options.Log.ErrorContext(r.Context(), "A request was not answered", "requestId", requestID(r.Context()), "path", r.URL.Path)
	}
	writeFailure(w, r, errUnanswered)
}

// errUnanswered says that a request ended without an answer.
var errUnanswered = errors.New("no answer")

// answerTimeout bounds every answer that is not a stream. A stream extends it with each message.
const answerTimeout = time.Minute

// withLimits limits the body of a request and the time of its answer.
func (s *Server) withLimits(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, s.options.MaxBody)
		// Only test writers do not support deadlines.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTimeout))
		next.ServeHTTP(w, r)
	})
}

// metricsPattern is the route of the server's own metrics.
const metricsPattern = "GET /metrics"

// withAuthentication admits only callers that the cluster knows, except to public routes. Only they can tell an unknown route from a known one.
func (s *Server) withAuthentication(next http.Handler, public map[string]bool, mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r)
		if public[pattern] {
			next.ServeHTTP(w, r)
			return
		}
		if header := impersonationHeader(r.Header); header != "" {
			writeFailure(w, r, &refusal{status: http.StatusBadRequest, code: "BadRequest",
				text: header + " has no effect here, where all is done as the owner of the token: leave it out"})
			return
		}
		review := s.gate.TokenReviewer(r)
		identify := s.gate.Identify
		if pattern == metricsPattern {
			identify = s.gate.IdentifyUser // nothing is done as Prometheus, so no impersonation is needed
		}
		caller, err := identify(r)
		if err != nil {
			s.writeUnidentified(w, r, err)
			return
		}
		ctx := context.WithValue(r.Context(), callerKey{}, caller)
		ctx = context.WithValue(ctx, reviewKey{}, review)
		if pattern == "" {
			unknownRoute(w, r.WithContext(ctx), mux)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// writeUnidentified answers a request whose caller is not known, cannot be acted for, or could not be asked about.
func (s *Server) writeUnidentified(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case errors.Is(err, access.ErrUnauthenticated):
		w.Header().Set("WWW-Authenticate", `Bearer realm="gpuctl"`)
		text := "no valid token: send the header Authorization: Bearer TOKEN with a token of this cluster"
		if websocket.IsWebSocketUpgrade(r) {
			text += "; browsers offer the subprotocols " + logProtocol + " and " + tokenProtocol + "TOKEN, that in base64url"
		}
		writeFailure(w, r, &refusal{status: http.StatusUnauthorized, code: "Unauthorized", text: text})
	case errors.As(err, new(*access.ActingError)):
		writeFailure(w, r, err)
	default:
		unavailable := &unavailableError{"the cluster cannot be asked who you are: try again"}
		s.logFailure(r.Context(), failureFromError(r.Context(), unavailable), "authentication", err)
		writeFailure(w, r, unavailable)
	}
}

// impersonationHeader returns the impersonation header of a Kubernetes client, "" for none. Ignoring it would give the request more rights than its sender
// intends.
func impersonationHeader(header http.Header) string {
	for name := range header {
		if strings.HasPrefix(name, "Impersonate-") {
			return name
		}
	}
	return ""
}

// publicPatterns returns the routes that need no token, as the OpenAPI document declares.
func (s *Server) publicPatterns() map[string]bool {
	public := map[string]bool{}
	for _, path := range documentPaths {
		public["GET "+path] = true
	}
	for path, item := range s.api.OpenAPI().Paths {
		if item.Get != nil && len(item.Get.Security) == 0 {
			public["GET "+path] = true
		}
	}
	return public
}

// unknownRoute answers requests that match no route, in our error format.
func unknownRoute(w http.ResponseWriter, r *http.Request, mux *http.ServeMux) {
	probe := &headerOnly{header: http.Header{}}
	mux.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		allow := probe.header.Get("Allow")
		w.Header().Set("Allow", allow)
		writeFailure(w, r, &refusal{status: http.StatusMethodNotAllowed, code: "MethodNotAllowed",
			text: fmt.Sprintf("%s is not possible here, but %s", r.Method, allow)})
		return
	}
	writeFailure(w, r, notFoundErrorf("there is no route %s %s: %s/docs lists them", r.Method, r.URL.Path, Root))
}

// headerOnly records the header of an answer and drops the body.
type headerOnly struct {
	header http.Header
	status int
}

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) Write(p []byte) (int, error) { return len(p), nil }
func (h *headerOnly) WriteHeader(status int)      { h.status = status }

// writeFailure answers with an error outside of the routes.
func writeFailure(w http.ResponseWriter, r *http.Request, err error) {
	failed := failureFromError(r.Context(), err)
	w.Header().Set("Content-Type", jsonType)
	if failed.status == http.StatusTooManyRequests || failed.status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(failed.status)
	_ = encodeJSON(w, failed) // the client is gone
}

// withCORS implements CORS: only pages of the listed origins may call, with a token.
func withCORS(next http.Handler, origins []string) http.Handler {
	allowed := map[string]bool{}
	for _, origin := range origins {
		allowed[strings.TrimSuffix(origin, "/")] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		origin := r.Header.Get("Origin")
		w.Header().Add("Vary", "Origin")
		if origin == "" || !allowed[origin] {
			next.ServeHTTP(w, r)
			return
		}
		header := w.Header()
		header.Set("Access-Control-Allow-Origin", origin)
		header.Set("Access-Control-Expose-Headers", "X-Request-Id, ETag, Retry-After, Idempotency-Replayed")
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			header.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
			header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID")
			header.Set("Access-Control-Max-Age", "600")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

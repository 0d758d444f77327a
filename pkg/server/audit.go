package server

import (
	"net/http"
	"time"

	"github.com/felixge/httpsnoop"
)

// withAuditLog logs one line per write: the user, the request and its result. It leaves out bodies, headers and queries because they may hold secrets.
func (s *Server) withAuditLog(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		user := ""
		if caller, err := callerFrom(ctx); err == nil {
			user = caller.User.GetName()
		}
		notes := &auditNotes{}
		began := s.options.Now()
		result := httpsnoop.CaptureMetrics(next, w, r.WithContext(withNotes(ctx, notes)))
		s.options.Log.InfoContext(ctx, "Audit",
			"requestId", requestID(ctx), "user", user, "address", r.RemoteAddr, "method", r.Method, "path", r.URL.Path,
			"objects", notes.allObjects(), "status", result.Code, "took", s.options.Now().Sub(began).Round(time.Millisecond).String())
	})
}

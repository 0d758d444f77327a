package server

import (
	"maps"
	"net/http"

	"g8s.host/gpu-scheduler/pkg/server/console"
)

// errSessionOver ends the streams of a page whose session has ended.
var errSessionOver = &refusal{status: http.StatusUnauthorized, code: "Unauthorized", text: "the session has ended: sign in again"}

// addConsole serves the console if it is asked for. It returns the public patterns with those of the console, and what gives requests of signed-in pages the
// token of their session.
func (s *Server) addConsole(mux *http.ServeMux, public map[string]bool) (map[string]bool, func(http.Handler) http.Handler, error) {
	if !s.options.Console {
		return public, func(next http.Handler) http.Handler { return next }, nil
	}
	page, err := console.New(console.Options{
		IdentifyUser: s.identifyUser, SessionOver: errSessionOver, Now: s.options.Now,
		Refuse: func(w http.ResponseWriter, r *http.Request, status int, code, text string) {
			writeFailure(w, r, &refusal{status: status, code: code, text: text})
		},
	})
	if err != nil {
		return nil, nil, err
	}
	all := maps.Clone(public)
	for _, pattern := range page.AddRoutes(mux) {
		all[pattern] = true
	}
	return all, page.WithSessions, nil
}

// identifyUser returns the name of the user whose rights a request has. Without one it answers the request itself.
func (s *Server) identifyUser(w http.ResponseWriter, r *http.Request) (string, bool) {
	caller, err := s.gate.Identify(r)
	if err != nil {
		s.writeUnidentified(w, r, err)
		return "", false
	}
	addAuditNote(r.Context(), "session of "+caller.User.GetName())
	return caller.User.GetName(), true
}

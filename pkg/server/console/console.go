// Package console is the web page of gpuctl-server: its files, and the sessions of browsers that have signed in with a token.
//
// A session is a stand-in for the Authorization header, and nothing else: [Console.WithSessions] puts the token of the session into a request, which then
// takes the way of every request with a token. So the page can do what its reader may do, and no more. The token stays in the server's memory: the
// browser holds a cookie that no script can read, and that counts only for requests that the browser says come from this very server.
package console

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Root is the path of the console.
const Root = "/console/"

// cookiePrefix begins the names of sessions' cookies. With __Host- browsers take a cookie only over TLS and for this host alone, so that no neighbor under
// the same domain can plant one.
const cookiePrefix = "__Host-gpuctl"

// digits are the ports that a cookie is named after.
var digits = regexp.MustCompile(`^[0-9]{1,5}$`)

// cookieName returns the name of the session's cookie for a Host header. Browsers send a host's cookies to all of its ports: with the port in the name, the
// consoles of two clusters that are forwarded to localhost do not end each other's sessions.
func cookieName(host string) string {
	if _, port, err := net.SplitHostPort(host); err == nil && digits.MatchString(port) {
		return cookiePrefix + "-" + port
	}
	return cookiePrefix
}

// Options connect the console with the server that serves it.
type Options struct {
	// IdentifyUser returns the name of the owner of a request's bearer token. If there is none it has answered the request, and returns false.
	IdentifyUser func(http.ResponseWriter, *http.Request) (string, bool)
	// Refuse answers with a failure in the format of the API.
	Refuse func(w http.ResponseWriter, r *http.Request, status int, code, text string)
	// SessionOver is the cause with which streams end when their session does.
	SessionOver error
	// Now is the clock.
	Now func() time.Time
}

// Console serves the page and its sessions.
type Console struct {
	options  Options
	sessions *sessionStore
	files    map[string]file
	// crossOrigin is the check of Go's own library. It stands beside ours, which is stricter.
	crossOrigin *http.CrossOriginProtection
}

// New returns a console with the embedded page.
func New(options Options) (*Console, error) {
	files, err := loadFiles(bundle)
	if err != nil {
		return nil, err
	}
	return &Console{options: options, sessions: newSessionStore(options.Now, options.SessionOver), files: files, crossOrigin: http.NewCrossOriginProtection()}, nil
}

// AddRoutes registers the console and returns its patterns. None of them needs a token.
func (c *Console) AddRoutes(mux *http.ServeMux) []string {
	routes := map[string]http.HandlerFunc{
		"GET " + Root:              c.serveFile,
		"POST " + Root + "session": c.signIn, "DELETE " + Root + "session": c.signOut,
	}
	patterns := make([]string, 0, len(routes))
	for pattern, handle := range routes {
		mux.HandleFunc(pattern, handle)
		patterns = append(patterns, pattern)
	}
	return patterns
}

// endedKey holds the context that ends with the session of a request.
type endedKey struct{}

// SessionOf returns a context that ends with the session of a request, with [Options.SessionOver] as its cause; nil for a request without one.
func SessionOf(ctx context.Context) context.Context {
	ended, _ := ctx.Value(endedKey{}).(context.Context)
	return ended
}

// WithSessions gives requests of signed-in pages the token of their session. A request with a token of its own keeps it. Streams have to end with
// [SessionOf]; other requests are carried out, as a write that is cut in the middle leaves its caller in doubt.
func (c *Console) WithSessions(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie(cookieName(r.Host))
		if err != nil || strings.HasPrefix(r.URL.Path, Root) || hasToken(r) || !c.isSameOrigin(r) {
			next.ServeHTTP(w, r)
			return
		}
		found, ok := c.sessions.findSession(cookie.Value)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		signed := r.Clone(context.WithValue(r.Context(), endedKey{}, found.ended))
		signed.Header.Set("Authorization", "Bearer "+found.token)
		signed.Header.Del("Cookie")
		next.ServeHTTP(w, signed)
	})
}

// isSameOrigin reports whether the browser says that a page of this server made the request. Browsers send Sec-Fetch-Site with every request, to open a
// stream or a socket too, and no script can set it. Without it, as from a program or an old browser, a cookie does not count.
func (c *Console) isSameOrigin(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "same-origin" && c.crossOrigin.Check(r) == nil
}

// hasToken reports whether a request has a token of its own, in one of the two places that are read.
func hasToken(r *http.Request) bool {
	return r.Header.Get("Authorization") != "" || strings.Contains(r.Header.Get("Sec-Websocket-Protocol"), "bearer.authorization")
}

package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
	"time"
)

var errOver = errors.New("over")

const goodToken = "ey.good"

// page is a console in front of an API that answers with the token that a request came with.
type page struct {
	*Console
	handler http.Handler
	now     time.Time
	// asked are the bearer tokens that the cluster was asked about.
	asked []string
}

func newPage(t *testing.T) *page {
	t.Helper()
	p := &page{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	console, err := New(Options{
		Now: func() time.Time { return p.now }, SessionOver: errOver,
		IdentifyUser: func(w http.ResponseWriter, r *http.Request) (string, bool) {
			token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			p.asked = append(p.asked, token)
			if !strings.HasPrefix(token, "ey.") {
				w.WriteHeader(http.StatusUnauthorized)
				return "", false
			}
			return "user of " + token, true
		},
		Refuse: func(w http.ResponseWriter, _ *http.Request, status int, code, _ string) {
			w.Header().Set("Code", code)
			w.WriteHeader(status)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	console.AddRoutes(mux)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Authorization")) // a recorder takes everything
	})
	p.Console, p.handler = console, console.WithSessions(mux)
	return p
}

// own are the headers of a request that the page itself makes.
func own(more ...string) http.Header {
	header := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"}}
	for i := 0; i+1 < len(more); i += 2 {
		header.Set(more[i], more[i+1])
	}
	return header
}

// reply is an answer that was read whole.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
	Body       *bytes.Buffer
	cookies    []*http.Cookie
}

func (r *reply) Cookies() []*http.Cookie { return r.cookies }

func (p *page) send(t *testing.T, method, target string, header http.Header, body string, cookies ...*http.Cookie) *reply {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(body))
	request.Header = header.Clone()
	for _, cookie := range cookies {
		request.AddCookie(cookie)
	}
	recorder := httptest.NewRecorder()
	p.handler.ServeHTTP(recorder, request)
	answer := recorder.Result()
	defer func() { _ = answer.Body.Close() }()
	return &reply{StatusCode: answer.StatusCode, Status: answer.Status, Header: answer.Header, Body: recorder.Body, cookies: answer.Cookies()}
}

func (p *page) signedIn(t *testing.T, token string, before ...*http.Cookie) *http.Cookie {
	t.Helper()
	answer := p.send(t, http.MethodPost, Root+"session", own(), `{"token":"`+token+`"}`, before...)
	if answer.StatusCode != http.StatusOK || len(answer.Cookies()) != 1 {
		t.Fatalf("signing in answers %s with %d cookies", answer.Status, len(answer.Cookies()))
	}
	return answer.Cookies()[0]
}

// counts reports whether the API sees the session's token.
func (p *page) counts(t *testing.T, method, target string, header http.Header, cookie *http.Cookie) bool {
	t.Helper()
	body, err := io.ReadAll(p.send(t, method, target, header, "", cookie).Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(body), goodToken)
}

// TestACookieCountsForThePageAlone has a row for each way in which another page could use the cookie of a reader.
func TestACookieCountsForThePageAlone(t *testing.T) {
	socket := []string{"Connection", "Upgrade", "Upgrade", "websocket"}
	tests := map[string]struct {
		method string
		header http.Header
		want   bool
	}{
		"the page reads":                                  {method: "GET", header: own(), want: true},
		"the page writes":                                 {method: "POST", header: own("Origin", "https://example.com"), want: true},
		"the page opens a stream":                         {method: "GET", header: own("Accept", "text/event-stream"), want: true},
		"the page opens a socket":                         {method: "GET", header: own(socket...), want: true},
		"another site writes (CSRF)":                      {method: "POST", header: own("Sec-Fetch-Site", "cross-site", "Origin", "https://evil.com")},
		"another site deletes":                            {method: "DELETE", header: own("Sec-Fetch-Site", "cross-site")},
		"another site reads":                              {method: "GET", header: own("Sec-Fetch-Site", "cross-site")},
		"another site opens a stream":                     {method: "GET", header: own("Sec-Fetch-Site", "cross-site", "Accept", "text/event-stream")},
		"another site opens a socket (CSWSH)":             {method: "GET", header: own(append(socket, "Sec-Fetch-Site", "cross-site", "Origin", "https://evil.com")...)},
		"a neighbor under the same domain":                {method: "POST", header: own("Sec-Fetch-Site", "same-site")},
		"a link or a bookmark, which nobody asks the API": {method: "GET", header: own("Sec-Fetch-Site", "none")},
		"a browser that does not say":                     {method: "GET", header: http.Header{}},
		"two sites at once":                               {method: "GET", header: http.Header{"Sec-Fetch-Site": {"cross-site", "same-origin"}}},
	}
	p := newPage(t)
	cookie := p.signedIn(t, goodToken)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := p.counts(t, tc.method, "/api/v1/jobs", tc.header, cookie); got != tc.want {
				t.Errorf("the cookie counts: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestATokenOfItsOwnWins: a request with a token is never done as the owner of a session.
func TestATokenOfItsOwnWins(t *testing.T) {
	p := newPage(t)
	cookie := p.signedIn(t, goodToken)
	for name, header := range map[string]http.Header{
		"a header":      own("Authorization", "Bearer other"),
		"a subprotocol": own("Sec-Websocket-Protocol", "base64url.bearer.authorization.k8s.io.b3RoZXI"),
	} {
		t.Run(name, func(t *testing.T) {
			if p.counts(t, http.MethodGet, "/api/v1/jobs", header, cookie) {
				t.Error("the session's token was used")
			}
		})
	}
}

// TestSigningInIsForThePageAlone: another page that signs its reader in as somebody else would see what is done then.
func TestSigningInIsForThePageAlone(t *testing.T) {
	long := strings.Repeat("a", maxToken+1)
	tests := map[string]struct {
		method, query, body string
		header              http.Header
		want                int
	}{
		"the page":                      {body: `{"token":"ey.good"}`, header: own(), want: http.StatusOK},
		"another site":                  {body: `{"token":"ey.good"}`, header: own("Sec-Fetch-Site", "cross-site"), want: http.StatusForbidden},
		"a program":                     {body: `{"token":"ey.good"}`, header: http.Header{"Content-Type": {"application/json"}}, want: http.StatusForbidden},
		"another site that signs out":   {method: http.MethodDelete, header: own("Sec-Fetch-Site", "cross-site"), want: http.StatusForbidden},
		"a form":                        {body: "token=ey.good", header: own("Content-Type", "application/x-www-form-urlencoded"), want: http.StatusUnsupportedMediaType},
		"a form that looks like JSON":   {body: `{"token":"ey.good"}`, header: own("Content-Type", "text/plain"), want: http.StatusUnsupportedMediaType},
		"a token in the address":        {query: "?token=ey.good", body: `{}`, header: own(), want: http.StatusBadRequest},
		"a token that is not valid":     {body: `{"token":"wrong"}`, header: own(), want: http.StatusUnauthorized},
		"two lines":                     {body: `{"token":"ey.good\r\nX-Evil: 1"}`, header: own(), want: http.StatusBadRequest},
		"more than a token":             {body: `{"token":"` + long + `"}`, header: own(), want: http.StatusBadRequest},
		"no JSON":                       {body: "ey.good", header: own(), want: http.StatusBadRequest},
		"a token of another's language": {body: `{"token":"ey.gööd"}`, header: own(), want: http.StatusBadRequest},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPage(t)
			method := tc.method
			if method == "" {
				method = http.MethodPost
			}
			answer := p.send(t, method, Root+"session"+tc.query, tc.header, tc.body)
			if answer.StatusCode != tc.want {
				t.Errorf("got %s, want %d", answer.Status, tc.want)
			}
			if got := len(answer.Cookies()) == 1; got != (tc.want == http.StatusOK) {
				t.Errorf("a cookie was set: %t", got)
			}
		})
	}
}

// TestTheCookie is one that no script, no neighbor and no other site gets.
func TestTheCookie(t *testing.T) {
	cookie := newPage(t).signedIn(t, goodToken)
	if !strings.HasPrefix(cookie.Name, "__Host-") || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode ||
		cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("got the cookie %s", cookie)
	}
	if strings.Contains(cookie.Value, goodToken) || len(cookie.Value) < 43 {
		t.Errorf("its value %q is not 256 bits of chance", cookie.Value)
	}
}

// TestSessionFixation: the id that a browser brings is never taken over, and the session it had ends.
func TestSessionFixation(t *testing.T) {
	p := newPage(t)
	planted := &http.Cookie{Name: cookieName("example.com"), Value: "planted"}
	first := p.signedIn(t, goodToken, planted)
	if first.Value == planted.Value || p.counts(t, http.MethodGet, "/api/v1/jobs", own(), planted) {
		t.Error("the planted id is that of a session")
	}
	second := p.signedIn(t, goodToken, first)
	if second.Value == first.Value || p.counts(t, http.MethodGet, "/api/v1/jobs", own(), first) {
		t.Error("the session before goes on")
	}
}

func TestSignOut(t *testing.T) {
	p := newPage(t)
	here, there, other := p.signedIn(t, goodToken), p.signedIn(t, goodToken), p.signedIn(t, goodToken+"2")
	found, _ := p.sessions.findSession(here.Value)
	answer := p.send(t, http.MethodDelete, Root+"session", own(), "", here)
	if answer.StatusCode != http.StatusNoContent || len(answer.Cookies()) != 1 || answer.Cookies()[0].MaxAge >= 0 {
		t.Errorf("signing out answers %s and the cookies %v", answer.Status, answer.Cookies())
	}
	if p.counts(t, http.MethodGet, "/api/v1/jobs", own(), here) || !p.counts(t, http.MethodGet, "/api/v1/jobs", own(), there) {
		t.Error("signing out did not end this session alone")
	}
	if !errors.Is(context.Cause(found.ended), errOver) {
		t.Error("its streams go on")
	}
	again := p.signedIn(t, goodToken)
	p.send(t, http.MethodDelete, Root+"session?everywhere=true", own(), "", again)
	if p.counts(t, http.MethodGet, "/api/v1/jobs", own(), there) {
		t.Error("signing out everywhere left a session")
	}
	if !p.counts(t, http.MethodGet, "/api/v1/jobs", own(), other) {
		t.Error("signing out everywhere ended that of another user")
	}
}

// TestStreamsEndWithTheirSession, as they would go on for as long as the page is open. What is written is carried out.
func TestStreamsEndWithTheirSession(t *testing.T) {
	p := newPage(t)
	cookie := p.signedIn(t, goodToken)
	p.handler = p.WithSessions(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		p.sessions.endSession(cookie.Value, false)
		if err := context.Cause(SessionOf(r.Context())); !errors.Is(err, errOver) {
			t.Errorf("its streams end with %v", err)
		}
		if err := r.Context().Err(); err != nil {
			t.Errorf("a request in flight is cut: %v", err)
		}
	}))
	p.send(t, http.MethodPost, "/api/v1/jobs", own(), "", cookie)
	if SessionOf(t.Context()) != nil {
		t.Error("a request without a session has one")
	}
}

// TestPortsHaveCookiesOfTheirOwn, as browsers send those of a host to all of its ports.
func TestPortsHaveCookiesOfTheirOwn(t *testing.T) {
	for host, want := range map[string]string{
		"example.com": cookiePrefix, "localhost:8443": cookiePrefix + "-8443", "[::1]:9443": cookiePrefix + "-9443", "[::1]": cookiePrefix, "": cookiePrefix,
		"localhost:": cookiePrefix, "localhost:a=b; Domain=evil.com": cookiePrefix, "localhost:123456": cookiePrefix,
	} {
		if got := cookieName(host); got != want {
			t.Errorf("the cookie of %q is %q, want %q", host, got, want)
		}
	}
}

func TestLifetimes(t *testing.T) {
	tests := map[string]struct {
		every, during time.Duration
		want          bool
	}{
		"used again and again":          {every: 10 * time.Minute, during: 11 * time.Hour, want: true},
		"used for longer than it lasts": {every: 10 * time.Minute, during: 12 * time.Hour},
		"idle for nearly an hour":       {every: 59 * time.Minute, during: 59 * time.Minute, want: true},
		"idle for an hour":              {every: time.Hour, during: time.Hour},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPage(t)
			cookie := p.signedIn(t, goodToken)
			got := true
			for gone := time.Duration(0); gone < tc.during && got; gone += tc.every {
				p.now = p.now.Add(tc.every)
				got = p.counts(t, http.MethodGet, "/api/v1/jobs", own(), cookie)
			}
			if got != tc.want {
				t.Errorf("the session lasts: %t, want %t", got, tc.want)
			}
		})
	}
}

// TestSessionsAreBounded: the session idle for longest gives way, and nobody's sessions are taken by one user.
func TestSessionsAreBounded(t *testing.T) {
	p := newPage(t)
	other := p.signedIn(t, "ey.other")
	first := p.signedIn(t, goodToken)
	for range maxSessionsPerUser {
		p.now = p.now.Add(time.Second)
		p.signedIn(t, goodToken)
	}
	if p.counts(t, http.MethodGet, "/api/v1/jobs", own(), first) {
		t.Errorf("a user has more than %d sessions", maxSessionsPerUser)
	}
	if _, ok := p.sessions.findSession(other.Value); !ok {
		t.Error("another user's session gave way")
	}
	for i := range maxSessions {
		p.sessions.startSession(strings.Repeat("u", i+1), "ey.")
	}
	if got := len(p.sessions.byID); got != maxSessions {
		t.Errorf("there are %d sessions, want %d", got, maxSessions)
	}
}

// TestOneTenantTakesNobodysSession: whoever makes ServiceAccounts by the hundred loses their own sessions.
func TestOneTenantTakesNobodysSession(t *testing.T) {
	p := newPage(t)
	victim := p.sessions.startSession("ada", "ey.")
	neighbor := p.sessions.startSession("system:serviceaccount:other:bot", "ey.")
	for i := range maxSessions + 64 {
		p.now = p.now.Add(time.Millisecond)
		p.sessions.startSession(fmt.Sprintf("system:serviceaccount:greedy:bot-%d", i/maxSessionsPerUser), "ey.")
	}
	for name, id := range map[string]string{"a person": victim, "another namespace": neighbor} {
		if _, ok := p.sessions.findSession(id); !ok {
			t.Errorf("the session of %s gave way", name)
		}
	}
	if got := len(p.sessions.byID); got != maxSessions {
		t.Errorf("there are %d sessions, want %d", got, maxSessions)
	}
}

// TestPaths: whatever the address, the answer is the page or one of its files, and never another place.
func TestPaths(t *testing.T) {
	p := newPage(t)
	for _, target := range []string{
		Root, Root + "jobs/team-a/x", Root + "..%2f..%2fetc%2fpasswd", Root + "%2e%2e/%2e%2e/sessions.go", Root + "assets/../../files.go", "/console//evil.com",
		Root + "?next=https://evil.com", Root + "https:%2f%2fevil.com", Root + "index.html", Root + "icon.svg",
	} {
		answer := p.send(t, http.MethodGet, target, http.Header{}, "")
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		if location := answer.Header.Get("Location"); location != "" {
			if to, err := url.Parse(location); err != nil || to.Host != "" || !strings.HasPrefix(path.Clean(to.Path), "/") || strings.HasPrefix(to.Path, "//") {
				t.Errorf("%s leads to %s", target, location)
			}
			continue
		}
		if strings.Contains(string(body), "package console") || strings.Contains(string(body), "root:") {
			t.Errorf("%s answers with a file of the machine", target)
		}
	}
	if answer := p.send(t, http.MethodGet, Root+"assets/none.js", http.Header{}, ""); answer.StatusCode != http.StatusNotFound {
		t.Errorf("a file that is not there answers %s", answer.Status)
	}
}

// TestPageHeaders: no other page frames it, no text becomes code, and only files whose names change are cached.
func TestPageHeaders(t *testing.T) {
	p := newPage(t)
	asset := ""
	for name := range p.files {
		if strings.HasSuffix(name, ".js") {
			asset = name
		}
	}
	for target, cache := range map[string]string{"": "no-cache", "jobs": "no-cache", "icon.svg": "no-cache", asset: "public, max-age=31536000, immutable"} {
		header := p.send(t, http.MethodGet, Root+target, http.Header{}, "").Header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": cache, "Content-Security-Policy": contentPolicy,
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s%s: %s is %q, want %q", Root, target, name, got, want)
			}
		}
		if header.Get("Content-Type") == "" || len(header.Values("Set-Cookie")) > 0 {
			t.Errorf("%s%s has the headers %v", Root, target, header)
		}
	}
	for _, directive := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"} {
		if !strings.Contains(contentPolicy, directive) {
			t.Errorf("the policy lacks %s", directive)
		}
	}
	if strings.Contains(contentPolicy, "unsafe") {
		t.Error("the policy lets something unsafe through")
	}
}

// TestTheBundle has nothing inline, names its files by their content, and is small.
func TestTheBundle(t *testing.T) {
	p := newPage(t)
	html := string(p.files[pageName].plain)
	for _, inline := range []string{"<style", "style=", "javascript:", "<script>", "onload="} {
		if strings.Contains(html, inline) {
			t.Errorf("the page has %q", inline)
		}
	}
	packed := 0
	for name, file := range p.files {
		packed += len(file.packed)
		if strings.HasPrefix(name, assetFolder) && (!regexp.MustCompile(`-[A-Z0-9]{8}\.(js|css)$`).MatchString(name) || !strings.Contains(html, name)) {
			t.Errorf("%s is not named by its content, or not loaded", name)
		}
	}
	if packed > 130<<10 {
		t.Errorf("a browser loads %d bytes, more than 130 KiB", packed)
	}
}

func TestFilesArePacked(t *testing.T) {
	p := newPage(t)
	answer := p.send(t, http.MethodGet, Root, http.Header{"Accept-Encoding": {"gzip, br"}}, "")
	unpacked, err := gzip.NewReader(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(unpacked)
	if err != nil || !bytes.Equal(got, p.files[pageName].plain) {
		t.Errorf("the packed page is another (%v)", err)
	}
	again := p.send(t, http.MethodGet, Root, http.Header{"If-None-Match": {answer.Header.Get("ETag")}}, "")
	if again.StatusCode != http.StatusNotModified {
		t.Errorf("the page that a browser has is sent again: %s", again.Status)
	}
}

package console

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strings"
)

// signIn starts a session for the owner of a token. The token comes in the body: an address would be kept in logs and histories.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	if !c.admitPage(w, r) {
		return
	}
	token, ok := c.readToken(w, r)
	if !ok {
		return
	}
	owned := r.Clone(r.Context())
	owned.Header = http.Header{"Authorization": {"Bearer " + token}}
	user, ok := c.options.IdentifyUser(w, owned)
	if !ok {
		return
	}
	if before, err := r.Cookie(cookieName(r.Host)); err == nil {
		c.sessions.endSession(before.Value, false)
	}
	http.SetCookie(w, sessionCookie(r, c.sessions.startSession(user, token), 0))
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"user": user}) // the client is gone
}

// signOut ends the session of the page, and with ?everywhere=true all of its user in this replica.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if !c.admitPage(w, r) {
		return
	}
	if cookie, err := r.Cookie(cookieName(r.Host)); err == nil {
		c.sessions.endSession(cookie.Value, r.URL.Query().Get("everywhere") == "true")
	}
	http.SetCookie(w, sessionCookie(r, "", -1))
	w.WriteHeader(http.StatusNoContent)
}

// admitPage refuses requests that are not of the page itself: another page could sign its reader in as somebody else, or out.
func (c *Console) admitPage(w http.ResponseWriter, r *http.Request) bool {
	if c.isSameOrigin(r) {
		return true
	}
	c.options.Refuse(w, r, http.StatusForbidden, "NotSameOrigin",
		"only the console itself may sign in and out: programs send the header Authorization: Bearer TOKEN with each request instead")
	return false
}

// readToken reads {"token": "..."}. JSON alone is read, which no form can send.
func (c *Console) readToken(w http.ResponseWriter, r *http.Request) (string, bool) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		c.options.Refuse(w, r, http.StatusUnsupportedMediaType, "UnsupportedMediaType", "send the token as application/json")
		return "", false
	}
	var body struct {
		Token string `json:"token"`
	}
	err = json.NewDecoder(io.LimitReader(r.Body, 2*maxToken)).Decode(&body)
	token := strings.TrimSpace(body.Token)
	if err != nil || token == "" || len(token) > maxToken || strings.ContainsFunc(token, isNoTokenRune) {
		c.options.Refuse(w, r, http.StatusBadRequest, "BadRequest", "this is no token: paste what `kubectl create token SERVICEACCOUNT` prints, in one line")
		return "", false
	}
	return token, true
}

// isNoTokenRune reports whether a character cannot be in a token, and might be understood as more than that in a header.
func isNoTokenRune(r rune) bool { return r <= ' ' || r > '~' }

// sessionCookie is the cookie of a session with the host that a request is for. It ends with the browser: how long the session lasts, the server decides.
func sessionCookie(r *http.Request, id string, maxAge int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName(r.Host), Value: id, Path: "/", MaxAge: maxAge, Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

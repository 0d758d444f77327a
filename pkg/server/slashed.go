package server

import (
	"net/http"
	"net/url"
	"strings"
)

// withEscapedLabelKeys allows an unescaped label key in a path, such as /nodes/NODE/labels/g8s.host/pool. It escapes the key's slash as %2F, because it would
// otherwise start another path segment.
func withEscapedLabelKeys(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, ok := escapeKeySlash(r.URL.EscapedPath())
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		same := *r
		same.URL = new(url.URL)
		*same.URL = *r.URL
		same.URL.RawPath = path
		next.ServeHTTP(w, &same)
	})
}

// escapeKeySlash returns the escaped path of a label's key that has a slash, with that slash escaped.
func escapeKeySlash(path string) (string, bool) {
	const nodes = Root + "/nodes/"
	rest, ok := strings.CutPrefix(path, nodes)
	if !ok {
		return "", false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 4 || parts[1] != "labels" {
		return "", false
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return "", false
		}
	}
	return nodes + parts[0] + "/labels/" + parts[2] + "%2F" + parts[3], true
}

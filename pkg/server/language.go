package server

import (
	"context"
	"net/http"

	"golang.org/x/text/language"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// languageKey is the context key of the language that a caller reads.
type languageKey struct{}

// maxAcceptLanguage bounds the header that is parsed. Browsers send less than 100 bytes.
const maxAcceptLanguage = 1000

// withLanguage has messages answered in the language that the caller prefers among ours: English without Accept-Language.
func withLanguage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Language")
		spoken := preferredLanguage(r.Header.Get("Accept-Language"))
		w.Header().Set("Content-Language", string(spoken))
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), languageKey{}, spoken)))
	})
}

// preferredLanguage is the first of ours in a header Accept-Language.
func preferredLanguage(header string) phrase.Language {
	if len(header) > maxAcceptLanguage {
		return phrase.English
	}
	tags, _, err := language.ParseAcceptLanguage(header)
	if err != nil {
		return phrase.English
	}
	for _, tag := range tags {
		switch base, _ := tag.Base(); base.String() {
		case string(phrase.Chinese):
			return phrase.Chinese
		case string(phrase.English):
			return phrase.English
		}
	}
	return phrase.English
}

// languageFrom is the language of a request's answer.
func languageFrom(ctx context.Context) phrase.Language {
	spoken, _ := ctx.Value(languageKey{}).(phrase.Language)
	return spoken
}

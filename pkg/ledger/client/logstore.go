package client

import (
	"net/url"
	"regexp"
	"strings"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// placeholder matches a placeholder in the address of a log store. JSON in braces, as in Grafana's addresses, does not match.
var placeholder = regexp.MustCompile(`\{\w*\}`)

// LogStoreURL returns the page of a cluster's own log store for a job. It replaces {namespace} and {job} in the template. The values are escaped,
// because they may come from a command line.
func LogStoreURL(template, namespace, job string) (string, error) {
	for _, found := range placeholder.FindAllString(template, -1) {
		if found != "{namespace}" && found != "{job}" {
			return "", phrase.Errorf("%q in the address of the log store stands for nothing: want {namespace} or {job}", found)
		}
	}
	if strings.ContainsFunc(template, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", phrase.Errorf("the address of the log store has characters that no address has: write them as %%XX")
	}
	text := strings.NewReplacer("{namespace}", url.QueryEscape(namespace), "{job}", url.QueryEscape(job)).Replace(template)
	address, err := url.Parse(text)
	switch {
	case err != nil:
		return "", phrase.Errorf("the address of the log store cannot be read: %w", err)
	case address.Scheme != "https" && address.Scheme != "http" || address.Host == "":
		return "", phrase.Errorf("the address of the log store is no http or https URL")
	case address.User != nil:
		return "", phrase.Errorf("the address of the log store has a user and a password, and everybody would see them")
	}
	return address.String(), nil
}

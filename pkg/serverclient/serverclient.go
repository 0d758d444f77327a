// Package serverclient connects to our own servers, the scheduler's explanations and the ledger, with the user's API server credentials. Since these
// carry all of the user's rights, they are sent only to the given address.
package serverclient

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// MaxResponseBytes limits the size of a response in bytes.
const MaxResponseBytes = 64 << 20

// Options say where a server is.
type Options struct {
	// Address is a URL such as https://gpu-ledger.kube-system.svc:8443.
	Address string
	// CA is a file with the certificate authority of the server, "" for the system's.
	CA string
	// CAData is the same in PEM, if there is no file.
	CAData []byte
	// Insecure accepts any certificate, so that any server that answers gets the credentials.
	Insecure bool
}

// Validate validates the options. server is the server's name in messages, such as "ledger", and example an example address.
func (o *Options) Validate(server, example string) error {
	if parsed, err := url.Parse(o.Address); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return phrase.Errorf("the %s's address is %q, want one such as %s", server, o.Address, example)
	}
	if o.CA != "" && o.Insecure {
		return phrase.Errorf("a certificate authority of the %s, and accepting any certificate, contradict each other", server)
	}
	return nil
}

// New returns a client for the valid address, with the credentials of config, which are for the API server of the same cluster. The server must prove
// to be the host of the address, or serverName if it is not "": the host may then be an IP address. An HTTPS proxy would have to prove to be of that
// name, too, so set serverName only if necessary.
func New(config *rest.Config, o *Options, serverName string) (*http.Client, error) {
	own := rest.CopyConfig(config)
	own.Host = o.Address
	// The certificate authority of the API server does not apply to this server's certificate.
	own.CAFile, own.CAData, own.Insecure, own.ServerName = o.CA, nil, o.Insecure, serverName
	if o.CA == "" && !o.Insecure {
		own.CAData = o.CAData
	}
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err // names the file or setting
	}
	out := *client // the original may be shared by the whole process
	// The credentials are added to each request, including redirects to other hosts.
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out, nil
}

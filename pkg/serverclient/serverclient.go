// Package serverclient connects to our own servers, which are the scheduler's explanations and the ledger, with the credentials
// that the API server knows a user by. They are worth as much as those rights, so they go to the address that was named and
// nowhere else.
package serverclient

import (
	"net/http"
	"net/url"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// MostRead bounds what is read of an answer, in bytes.
const MostRead = 64 << 20

// Options say where a server is.
type Options struct {
	// Address is a URL such as https://gpu-ledger.kube-system.svc:8443.
	Address string
	// CA is a file with the certificate that the server's is signed by, "" for the system's.
	CA string
	// CAData is the same in PEM, where there is no file.
	CAData []byte
	// Insecure accepts any certificate, so that any server that answers gets the credentials.
	Insecure bool
}

// Validate says what is wrong with the options. The server is what it is called, such as "ledger", and example is an address
// of one.
func (o *Options) Validate(server, example string) error {
	if parsed, err := url.Parse(o.Address); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return phrase.Errorf("the %s's address is %q, want one such as %s", server, o.Address, example)
	}
	if o.CA != "" && o.Insecure {
		return phrase.Errorf("a certificate authority of the %s, and accepting any certificate, contradict each other", server)
	}
	return nil
}

// New returns what asks at the valid address, with the credentials of config, which are for the API server of the same cluster.
// Whoever answers must prove to be the host of the address, or serverName if it is not "": the host may then be an IP of it. A
// proxy that is asked by HTTPS must prove to be of that name, too, so it is for those alone who need it.
func New(config *rest.Config, o *Options, serverName string) (*http.Client, error) {
	own := rest.CopyConfig(config)
	own.Host = o.Address
	// The certificate authority of the API server says nothing about the server's certificate.
	own.CAFile, own.CAData, own.Insecure, own.ServerName = o.CA, nil, o.Insecure, serverName
	if o.CA == "" && !o.Insecure {
		own.CAData = o.CAData
	}
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, err // says which file or setting
	}
	out := *client // it may be that of the whole process
	// The credentials are added to each request, also to one that an answer sends elsewhere.
	out.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &out, nil
}

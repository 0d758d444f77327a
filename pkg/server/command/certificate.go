package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// certificate is the server's certificate, reloaded when its files change; empty without TLS.
type certificate struct{ watcher *certwatcher.CertWatcher }

// loadCertificate loads the files. Serving without TLS requires --insecure.
func (o *options) loadCertificate() (*certificate, error) {
	switch {
	case o.insecure && (o.certFile != "" || o.keyFile != ""):
		return nil, errors.New("--insecure serves without TLS: leave it out, or the certificate")
	case o.insecure:
		return &certificate{}, nil
	case o.certFile == "" || o.keyFile == "":
		return nil, errors.New("give --tls-cert-file and --tls-key-file, or --insecure on a loopback address")
	}
	watcher, err := certwatcher.New(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	return &certificate{watcher: watcher}, nil
}

// tlsConfig returns the TLS configuration, nil without a certificate.
func (c *certificate) tlsConfig() *tls.Config {
	if c.watcher == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}
}

// watchFiles reloads the files whenever they change, until ctx ends.
func (c *certificate) watchFiles(ctx context.Context) error {
	if c.watcher == nil {
		return nil
	}
	return c.watcher.Start(ctx)
}

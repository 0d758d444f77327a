package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
)

// certificate is the server's, read again when its files change; without files the server has none.
type certificate struct{ watcher *certwatcher.CertWatcher }

// certificate reads the files. Without TLS, --insecure must say that this is meant.
func (o *options) certificate() (*certificate, error) {
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

// config is how to serve with the certificate, nil without.
func (c *certificate) config() *tls.Config {
	if c.watcher == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.watcher.GetCertificate, NextProtos: []string{"h2", "http/1.1"}}
}

// watch reads the files again whenever they change, until ctx ends.
func (c *certificate) watch(ctx context.Context) error {
	if c.watcher == nil {
		return nil
	}
	return c.watcher.Start(ctx)
}

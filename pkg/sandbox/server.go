package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"k8s.io/client-go/util/cert"
)

// ServerName is the name of the REST server's process, of its binary, of its Deployment and of its service account in the
// manifests.
const (
	ServerName = "gpuctl-server"
	// ServerNamespace is a namespace of its own, as in the manifests.
	ServerNamespace = "gpuctl-server"
)

var serverComponent = component{name: ServerName, namespace: ServerNamespace, folders: []string{"server"}}

// ServerOptions say which gpuctl-server to run. The zero value is the one built beside the tools, on a free port.
type ServerOptions struct {
	// Binary is the program. Default: gpuctl-server in the folder above the tools.
	Binary string
	// Port is where it listens on 127.0.0.1; 0 is a free one.
	Port int
	// Args are more flags, and Env more variables.
	Args, Env []string
}

// Server is a running gpuctl-server.
type Server struct {
	*Process
	// URL is where it answers, and CAFile what its certificate is verified with.
	URL, CAFile string
}

// InstallServer applies manifests/server, for StartServer.
func (s *Sandbox) InstallServer(ctx context.Context) error {
	return s.installComponent(ctx, serverComponent)
}

// StartServer runs gpuctl-server as the service account of the manifests, which InstallServer has created, and waits
// until it is ready. Its certificate is made for this sandbox.
func (s *Sandbox) StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	program, err := s.prepareComponent(ctx, serverComponent, o.Binary)
	if err != nil {
		return nil, err
	}
	port, err := portOr(o.Port)
	if err != nil {
		return nil, err
	}
	certFile, keyFile, err := s.serverCertificate()
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", port)
	p, err := s.StartProcess(ctx, ProcessSpec{
		Name: ServerName, Path: program.binary, Port: port, Env: o.Env,
		Args: append([]string{
			"--kubeconfig=" + program.kubeconfig,
			"--listen=127.0.0.1:" + strconv.Itoa(port),
			"--tls-cert-file=" + certFile,
			"--tls-key-file=" + keyFile,
		}, o.Args...),
		Ready: HTTPReady(url + "/readyz"),
	})
	if err != nil {
		return nil, err
	}
	s.ReportProgress("%s is ready at %s", ServerName, url)
	return &Server{Process: p, URL: url, CAFile: certFile}, nil
}

// serverCertificate makes a certificate for this machine, once for each sandbox.
func (s *Sandbox) serverCertificate() (certFile, keyFile string, err error) {
	certFile = filepath.Join(s.dir, "certs", ServerName+".crt")
	keyFile = filepath.Join(s.dir, "certs", ServerName+".key")
	if _, err := os.Stat(keyFile); err == nil {
		return certFile, keyFile, nil
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return "", "", fmt.Errorf("making the server's certificate: %w", err)
	}
	if err := os.WriteFile(certFile, certPEM, 0o600); err != nil {
		return "", "", fmt.Errorf("writing the server's certificate: %w", err)
	}
	if err := os.WriteFile(keyFile, keyPEM, 0o600); err != nil {
		return "", "", fmt.Errorf("writing the server's key: %w", err)
	}
	return certFile, keyFile, nil
}

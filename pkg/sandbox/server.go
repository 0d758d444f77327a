package sandbox

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"g8s.host/gpu-scheduler/manifests"
)

// ServerName is the name of the REST server's process, of its binary, of its Deployment and of its service account in the
// manifests; manifests/server is its folder.
const (
	ServerName   = "gpuctl-server"
	serverFolder = "server"
	// ServerNamespace is where the manifests put it, and nothing else.
	ServerNamespace = "gpuctl-server"
)

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

// InstallServer applies manifests/server. Its Deployment is scaled to no replicas: the process of StartServer stands in
// for its pods, for which no image exists here.
func (s *Sandbox) InstallServer(ctx context.Context) error {
	if err := s.ApplyManifests(ctx, manifests.FS, serverFolder); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: ServerName, Namespace: ServerNamespace}}
	_, err = client.AppsV1().Deployments(ServerNamespace).UpdateScale(ctx, ServerName, scale, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("scaling the server's Deployment to 0: %w", err)
	}
	return nil
}

// StartServer runs gpuctl-server as the service account of the manifests, which InstallServer has created, and waits
// until it is ready. Its certificate is made for this sandbox.
func (s *Sandbox) StartServer(ctx context.Context, o ServerOptions) (*Server, error) {
	if o.Binary == "" {
		o.Binary = filepath.Join(filepath.Dir(s.options.BinDir), ServerName)
	}
	if _, err := os.Stat(o.Binary); err != nil {
		return nil, fmt.Errorf("finding the server (run \"make build\" in the repository): %w", err)
	}
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, ServerNamespace, ServerName)
	if err != nil {
		return nil, err
	}
	if o.Port == 0 {
		if o.Port, err = FreePort("127.0.0.1"); err != nil {
			return nil, err
		}
	}
	certFile, keyFile, err := s.serverCertificate()
	if err != nil {
		return nil, err
	}
	url := fmt.Sprintf("https://127.0.0.1:%d", o.Port)
	p, err := s.StartProcess(ctx, ProcessSpec{
		Name: ServerName, Path: o.Binary, Port: o.Port, Env: o.Env,
		Args: append([]string{
			"--kubeconfig=" + kubeconfig,
			"--listen=127.0.0.1:" + strconv.Itoa(o.Port),
			"--tls-cert-file=" + certFile,
			"--tls-key-file=" + keyFile,
		}, o.Args...),
		Ready: HTTPReady(url + "/readyz"),
	})
	if err != nil {
		return nil, err
	}
	s.Progress("%s is ready at %s", ServerName, url)
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

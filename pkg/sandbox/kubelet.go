package sandbox

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/util/cert"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
)

// Time limits of a command's streams: as a kubelet has them.
const (
	streamIdleTimeout     = 4 * time.Hour
	streamCreationTimeout = 30 * time.Second
)

// startKubelet serves the API server's requests to kubelets, on the port that all nodes have. Commands in containers run here on this machine, and
// other requests are passed on to kwok. kwok would run commands too, but does not report their exit codes.
func (s *Sandbox) startKubelet() error {
	certificate, key, err := cert.GenerateSelfSignedCertKey("kubelet", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return fmt.Errorf("making the kubelets' certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return fmt.Errorf("reading the kubelets' certificate: %w", err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.kubeletPort)))
	if err != nil {
		return fmt.Errorf("listening for the API server: %w", err)
	}
	kwok := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.kwokPort))})
	kwok.FlushInterval = -1 // a followed log arrives line by line
	mux := http.NewServeMux()
	mux.Handle("/", kwok)
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", serveExec)
	mux.HandleFunc("/attach/{namespace}/{pod}/{container}", s.serveAttach)
	s.startServing(listener, &http.Server{
		Handler: mux, ReadHeaderTimeout: podServerTimeout,
		TLSConfig:    &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}, // streams need HTTP/1.1
	})
	return nil
}

func serveExec(w http.ResponseWriter, r *http.Request) {
	command := r.URL.Query()["command"]
	options, err := remotecommand.NewOptions(r)
	if err != nil || len(command) == 0 {
		http.Error(w, fmt.Sprintf("want a command and its streams: %v", err), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, hostExecutor{}, r.PathValue("pod"), "", r.PathValue("container"), command, options,
		streamIdleTimeout, streamCreationTimeout, remotecommandconsts.SupportedStreamingProtocols)
}

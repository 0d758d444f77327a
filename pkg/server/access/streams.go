package access

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// streamBuffer is how much of a stream the kernel takes in before it is read, in bytes, instead of up to some megabytes.
// Nobody is sent more than that in a hundredth of a second.
const streamBuffer = 64 << 10

const (
	dialTimeout = 10 * time.Second
	idleStream  = time.Minute
)

// streamTransport connects to the API server for reading what has no end. It speaks HTTP/1.1, of which nothing is taken in
// that nobody reads: HTTP/2 takes 4 MiB of each stream for a reader who may be slow. Nor does the kernel take in much: what
// it does, the API server and the kubelet have to encrypt and pass on first, at once for everybody who opens a stream.
func streamTransport(config *rest.Config) (http.RoundTripper, error) {
	secure, err := config.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("setting up streams: %w", err)
	}
	settings, err := transport.TLSConfigFor(secure)
	if err != nil {
		return nil, fmt.Errorf("setting up streams: %w", err)
	}
	if settings != nil {
		settings.NextProtos = []string{"http/1.1"}
	}
	dialer := &net.Dialer{Timeout: dialTimeout}
	proxy := config.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	return &http.Transport{
		Proxy: proxy, TLSClientConfig: settings, TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: idleStream,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			connection, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, fmt.Errorf("connecting for a stream: %w", err)
			}
			if tcp, ok := connection.(*net.TCPConn); ok {
				_ = tcp.SetReadBuffer(streamBuffer) // it only takes in more without
			}
			return connection, nil
		},
	}, nil
}

// streamsOf is a client of streams that acts as config says, on the connections of all.
func (g *Gate) streamsOf(config *rest.Config) (kubernetes.Interface, error) {
	acting, err := rest.HTTPWrappersForConfig(config, g.streams)
	if err != nil {
		return nil, fmt.Errorf("acting on streams: %w", err)
	}
	return kubernetes.NewForConfigAndClient(config, &http.Client{Transport: acting})
}

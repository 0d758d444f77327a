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

// streamBuffer is the kernel's receive buffer of a stream in bytes. The default grows to some megabytes. No client is sent more than this in a
// hundredth of a second.
const streamBuffer = 64 << 10

const (
	dialTimeout = 10 * time.Second
	idleStream  = time.Minute
)

// streamTransport returns a transport to the API server for endless reads. It speaks HTTP/1.1, which buffers little unread data: HTTP/2 buffers 4 MiB
// of each stream for a slow reader. The kernel's buffer is small, too, because the API server and the kubelet must encrypt and forward its content
// first, at once for all streams that open.
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
				_ = tcp.SetReadBuffer(streamBuffer) // without it the kernel buffers more
			}
			return connection, nil
		},
	}, nil
}

// streamsOf returns a client for streams that acts as config says, on the shared connections.
func (g *Gate) streamsOf(config *rest.Config) (kubernetes.Interface, error) {
	acting, err := rest.HTTPWrappersForConfig(config, g.streams)
	if err != nil {
		return nil, fmt.Errorf("acting on streams: %w", err)
	}
	return kubernetes.NewForConfigAndClient(config, &http.Client{Transport: acting})
}

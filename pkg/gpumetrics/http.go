package gpumetrics

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/api"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// MaxAnswer bounds an answer of Prometheus about all GPUs of a cluster in bytes: some hundred bytes per GPU.
const MaxAnswer = 16 << 20

// ErrTooLarge means that an answer exceeds the limit.
var ErrTooLarge = phrase.Errorf("the answer of Prometheus is too large")

// HTTPClient returns a client for Prometheus that follows no redirects and reads at most a number of bytes of an answer. A nil transport selects the
// default one.
func HTTPClient(transport http.RoundTripper, most int64) *http.Client {
	if transport == nil {
		transport = api.DefaultRoundTripper
	}
	return &http.Client{
		Transport:     &boundedTransport{transport: transport, most: most},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// boundedTransport is a transport whose longer answers end with [ErrTooLarge].
type boundedTransport struct {
	transport http.RoundTripper
	most      int64
}

func (b *boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.transport.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // the client says what it did
	}
	response.Body = &boundedBody{ReadCloser: response.Body, left: b.most}
	return response, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n, ErrTooLarge
	}
	return n, err //nolint:wrapcheck // io.EOF must stay what it is
}

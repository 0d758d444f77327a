package gpumetrics

import (
	"io"
	"net/http"

	"github.com/prometheus/client_golang/api"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// MaxAnswer is how many bytes of an answer of Prometheus are read at most where all GPUs of a cluster are asked about:
// some hundred bytes a GPU.
const MaxAnswer = 16 << 20

// ErrTooLarge says that an answer is larger than what is read of one.
var ErrTooLarge = phrase.Errorf("the answer of Prometheus is too large")

// HTTPClient returns what asks Prometheus: it goes where it is told, and nowhere an answer sends it, and reads no more
// than so many bytes of one. A nil transport is the usual one.
func HTTPClient(transport http.RoundTripper, most int64) *http.Client {
	if transport == nil {
		transport = api.DefaultRoundTripper
	}
	return &http.Client{
		Transport:     &bounded{transport: transport, most: most},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded is a transport whose answers end with [ErrTooLarge].
type bounded struct {
	transport http.RoundTripper
	most      int64
}

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
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

package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bindings stands where the API server would: it takes Bindings, and keeps the annotations of the last one. Plugins
// that bind write the cards there. All else that a plugin asks for is refused.
type bindings struct{ annotations map[string]string }

// take returns the annotations of the last Binding.
func (b *bindings) take() map[string]string {
	annotations := b.annotations
	b.annotations = nil
	return annotations
}

// RoundTrip implements http.RoundTripper.
func (b *bindings) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPost || request.Body == nil {
		return nil, fmt.Errorf("a simulation has no API server to ask: %s %s", request.Method, request.URL.Path)
	}
	defer request.Body.Close() //nolint:errcheck // it is in memory
	var binding corev1.Binding
	if err := json.NewDecoder(request.Body).Decode(&binding); err != nil {
		return nil, fmt.Errorf("reading a Binding: %w", err)
	}
	b.annotations = binding.Annotations
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
	})
	if err != nil {
		return nil, fmt.Errorf("answering a Binding: %w", err)
	}
	return &http.Response{
		StatusCode: http.StatusCreated, Request: request, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

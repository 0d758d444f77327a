package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// apiServer replaces the API server. It supports what plugins request: binding pods, of which it keeps the annotations, where our plugin writes the
// GPUs; and evicting pods. It refuses everything else.
type apiServer struct {
	mu      sync.Mutex // preemption evicts in goroutines
	binding map[string]string
	evicted []types.NamespacedName
}

// takeBinding returns the annotations of the last Binding.
func (s *apiServer) takeBinding() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	annotations := s.binding
	s.binding = nil
	return annotations
}

// takeEvicted returns the pods that were evicted since the last time, by name.
func (s *apiServer) takeEvicted() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	evicted := s.evicted
	s.evicted = nil
	slices.SortFunc(evicted, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return evicted
}

// RoundTrip implements http.RoundTripper.
func (s *apiServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body != nil {
		defer request.Body.Close() //nolint:errcheck // it is in memory
	}
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	switch {
	case len(path) < 6 || path[0] != "api" || path[4] != "pods":
	case request.Method == http.MethodPost && path[len(path)-1] == "binding":
		return s.acceptBinding(request)
	case request.Method == http.MethodDelete:
		s.mu.Lock()
		s.evicted = append(s.evicted, types.NamespacedName{Namespace: path[3], Name: path[5]})
		s.mu.Unlock()
		return respondCreated(request)
	case request.Method == http.MethodPatch: // the conditions that a victim gets before it is evicted
		return newResponse(request, http.StatusOK, &corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: path[3], Name: path[5]},
		})
	}
	return nil, fmt.Errorf("a simulation has no API server to ask: %s %s", request.Method, request.URL.Path)
}

func (s *apiServer) acceptBinding(request *http.Request) (*http.Response, error) {
	var binding corev1.Binding
	if err := json.NewDecoder(request.Body).Decode(&binding); err != nil {
		return nil, fmt.Errorf("reading a Binding: %w", err)
	}
	s.mu.Lock()
	s.binding = binding.Annotations
	s.mu.Unlock()
	return respondCreated(request)
}

func respondCreated(request *http.Request) (*http.Response, error) {
	return newResponse(request, http.StatusCreated, &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
	})
}

func newResponse(request *http.Request, status int, object any) (*http.Response, error) {
	body, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("answering %s %s: %w", request.Method, request.URL.Path, err)
	}
	return &http.Response{
		StatusCode: status, Request: request, ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

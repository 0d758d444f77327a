package sandbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// podServerTimeout bounds how long one request may take to come in and to be answered.
const podServerTimeout = time.Minute

// startPodServer answers for every port of every simulated pod, on a free port of 127.0.0.1, because their containers do not listen. It has one page,
// and echoes what it receives. It gives no access to the machine.
func (s *Sandbox) startPodServer() (port int, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("listening for the simulated pods: %w", err)
	}
	s.startServing(listener, &http.Server{
		Handler: http.HandlerFunc(answerForPod), ReadHeaderTimeout: podServerTimeout,
		ReadTimeout: podServerTimeout, WriteTimeout: podServerTimeout, IdleTimeout: podServerTimeout,
	})
	return listener.Addr().(*net.TCPAddr).Port, nil
}

func answerForPod(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch r.Method {
	case http.MethodPost, http.MethodPut:
		_ = http.NewResponseController(w).EnableFullDuplex() // an old protocol gets its answer at the end
		_, _ = io.Copy(w, r.Body)                            // the client sees what is missing
	default:
		fmt.Fprintln(w, "This is a port of a simulated pod (kwok): no container listens behind it. What is POSTed here comes back.")
	}
}

// startServing serves until the sandbox stops.
func (s *Sandbox) startServing(listener net.Listener, server *http.Server) {
	s.mu.Lock()
	s.servers = append(s.servers, server)
	s.mu.Unlock()
	if server.TLSConfig != nil {
		go func() { _ = server.ServeTLS(listener, "", "") }() // it ends when the server is closed
		return
	}
	go func() { _ = server.Serve(listener) }()
}

// closeServers ends what the sandbox itself serves.
func (s *Sandbox) closeServers() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, server := range s.servers {
		if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

package command

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"g8s.host/gpu-scheduler/pkg/serving"
)

// Limits of connections.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = 2 * time.Minute
	idleTimeout  = 2 * time.Minute
	maxHeader    = 64 << 10
	// maxConnections is how many are open at once.
	maxConnections = 1024
	grace          = 10 * time.Second
)

// webServer serves HTTPS.
type webServer struct {
	server      *http.Server
	listener    net.Listener
	certificate *certwatcher.CertWatcher
}

// newWebServer creates the server and listens. Probes need no credentials and reveal nothing else.
func (o *options) newWebServer(ctx context.Context, ledger http.Handler, full func() bool, log *slog.Logger) (*webServer, error) {
	certificate, err := certwatcher.New(o.certFile, o.keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", ledger)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /readyz", readinessHandler(full))
	out := &webServer{
		listener: listener, certificate: certificate,
		server: &http.Server{
			Handler: mux, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
			TLSConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, GetCertificate: certificate.GetCertificate,
				// A client certificate identifies the caller. The gate later decides whether it belongs to a user of the cluster.
				ClientAuth: tls.RequestClientCert,
			},
		},
	}
	serving.BoundConnections(out.server, maxConnections, time.Now)
	return out, nil
}

// serveUntilDone answers until ctx ends, and lets running queries finish.
func (w *webServer) serveUntilDone(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.certificate.Start(ctx) })
	group.Go(func() error {
		err := w.server.ServeTLS(w.listener, "", "")
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serving: %w", err)
	})
	group.Go(func() error {
		<-ctx.Done()
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if w.server.Shutdown(last) != nil {
			return w.server.Close()
		}
		return nil
	})
	return group.Wait()
}

// readinessHandler reports a full disk, which keeps the ledger from recording everything. Queries still work.
func readinessHandler(full func() bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text := "ok\n"
		if full() {
			text = "ok, but the disk is full: what is oldest of the namespaces with most is taken away\n"
		}
		_, _ = io.WriteString(w, text) // a probe that is gone
	}
}

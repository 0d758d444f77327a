// Package server is the REST API of gpuctl: the command's functions for programs, with the same YAML, numbers and terms. OpenAPI is the source of
// truth: routes are declared as [route] values with typed inputs and outputs. Request validation and the document at /openapi.json follow from them.
//
// Lists are served from a cache, a [clusterCache] that watches keep up to date, after a review of the caller's right to list. Everything else is done
// with the caller's own identity (package access), so that the caller's rights and quotas apply. The packages that gpuctl also uses decide what to
// write: workload, render, operate, submit.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	explainclient "g8s.host/gpu-scheduler/pkg/explain/client"
	"g8s.host/gpu-scheduler/pkg/inventory"
	ledgerclient "g8s.host/gpu-scheduler/pkg/ledger/client"
	"g8s.host/gpu-scheduler/pkg/server/access"
	"g8s.host/gpu-scheduler/pkg/serving"
)

// Options say how a Server serves. The zero value of each field has a safe default.
type Options struct {
	// Version is the version that /version and the document show.
	Version string
	// Prometheus is the URL of the Prometheus that has the metrics of GPUs, "" for none.
	Prometheus string
	// Scheduler is the address of the scheduler's records; no Address for none.
	Scheduler explainclient.Options
	// Ledger is the address of the ledger, which is queried as the caller; no Address for none.
	Ledger ledgerclient.Options
	// Audiences are those a token must be for; none means the API server's own.
	Audiences []string
	// ReviewTTL is how long a token or a right may still work after it is revoked, in requests and in streams; 0 means [DefaultReviewTTL].
	ReviewTTL time.Duration
	// Origins are the web origins that browsers may call from, such as https://console.example.com; none by default.
	Origins []string
	// Console serves the web page, too.
	Console bool
	// Rate is the limit of requests per second for each caller, after a burst of Burst; 0 means [DefaultRate].
	Rate  float64
	Burst int
	// Streams is how many streams each caller may have open at once; 0 means [DefaultStreams].
	Streams int
	// MaxBody is the size of the largest request body in bytes; 0 means [DefaultMaxBody].
	MaxBody int64
	// Grace is how long requests in flight have when the server stops; 0 means [DefaultGrace].
	Grace time.Duration
	// Log gets one line for each write and for what goes wrong; nil discards.
	Log *slog.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Defaults of [Options].
const (
	DefaultRate    = 50
	DefaultBurst   = 200
	DefaultStreams = 200
	DefaultMaxBody = 2 << 20
	DefaultGrace   = 30 * time.Second
	// DefaultReviewTTL is short enough for revoked rights and long enough for lists from the cache.
	DefaultReviewTTL = 10 * time.Second
)

func (o Options) withDefaults() Options {
	if o.Rate <= 0 {
		o.Rate = DefaultRate
	}
	if o.Burst <= 0 {
		o.Burst = max(DefaultBurst, int(o.Rate))
	}
	if o.Streams <= 0 {
		o.Streams = DefaultStreams
	}
	if o.ReviewTTL <= 0 {
		o.ReviewTTL = DefaultReviewTTL
	}
	if o.MaxBody <= 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.Grace <= 0 {
		o.Grace = DefaultGrace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Server serves the REST API of one cluster.
type Server struct {
	options Options
	gate    *access.Gate
	// own reads with the server's identity: for the cache, and for the readiness of the API server.
	own kubernetes.Interface
	// scheduler reads the scheduler's records with the server's identity; nil without an address.
	scheduler      *explainclient.Client
	cache          *clusterCache
	leader         leaderCache
	startEstimates startEstimator
	quotaCache     gpuQuotaCache
	budgets        *budgets
	metrics        *metrics
	api            huma.API
	// weights are those of routes that count as several requests, by their patterns.
	weights map[string]int
	// weigh returns how many requests a request counts as.
	weigh   func(*http.Request) int
	handler http.Handler
	open    *openStreams
	// output limits the followed output of each caller, in bytes.
	output *limiter
	// sockets are the connections taken over from the HTTP server, which does not wait for them when it stops.
	sockets sync.WaitGroup
	// streams ends when the server begins to stop: an open stream would block the shutdown forever.
	streams context.Context
	endAll  context.CancelFunc
}

// New returns a server of the cluster that config connects to, with the identity of the server itself.
func New(config *rest.Config, options Options) (*Server, error) {
	options = options.withDefaults()
	gate, err := access.New(config, access.Options{TTL: options.ReviewTTL / 2, Audiences: options.Audiences})
	if err != nil {
		return nil, err
	}
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	own, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, fmt.Errorf("creating the client of the server: %w", err)
	}
	s := &Server{options: options, gate: gate, own: own, cache: newClusterCache(), metrics: newMetrics(), budgets: newBudgets(), weights: map[string]int{}}
	s.open = newOpenStreams(options.Streams)
	s.output = newLimiter(outputRate, outputBurst)
	if options.Ledger.Address != "" {
		client, err := ledgerclient.New(config, options.Ledger)
		if err != nil {
			return nil, err
		}
		s.startEstimates.runs, s.startEstimates.log, s.startEstimates.now = client.Runs, options.Log, options.Now
	}
	if options.Scheduler.Address != "" {
		if s.scheduler, err = explainclient.New(config, options.Scheduler); err != nil {
			return nil, err
		}
	}
	s.streams, s.endAll = context.WithCancel(context.Background())
	if s.handler, err = s.buildHandler(); err != nil {
		return nil, err
	}
	return s, nil
}

// Handler returns the handler of all requests. Lists answer 503 until [Server.RunCache] has filled the cache.
func (s *Server) Handler() http.Handler { return s.handler }

// RunCache keeps the cache up to date until ctx ends.
func (s *Server) RunCache(ctx context.Context) error {
	err := inventory.NewReader(s.own).WatchCluster(ctx, func(state inventory.State) {
		s.cache.setView(state, s.options.Now())
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Limits of connections. Writes have a limit per answer instead, because streams have no end.
const (
	headerTimeout = 10 * time.Second
	readTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
	maxHeader     = 64 << 10
	// maxConnections is how many are open at once.
	maxConnections = 4096
)

// Serve answers requests on a listener until ctx ends, with TLS unless the configuration is nil. Then it accepts no more requests, ends the streams,
// and lets requests in flight finish, so that accepted writes complete.
func (s *Server) Serve(ctx context.Context, listener net.Listener, secure *tls.Config) error {
	server := &http.Server{
		Handler:           s.handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		TLSConfig:         secure,
		ErrorLog:          slog.NewLogLogger(s.options.Log.Handler(), slog.LevelDebug),
	}
	serving.BoundConnections(server, maxConnections, s.options.Now)
	ended := make(chan error, 1)
	go func() {
		if secure != nil {
			ended <- server.ServeTLS(listener, "", "")
			return
		}
		ended <- server.Serve(listener)
	}()
	select {
	case err := <-ended:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	s.endAll()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Grace)
	defer cancel()
	if err := errors.Join(server.Shutdown(grace), s.waitForSockets(grace)); err != nil {
		return fmt.Errorf("stopping: requests in flight did not end within %s: %w", s.options.Grace, errors.Join(err, server.Close()))
	}
	return nil
}

// waitForSockets waits until sockets have told their clients that the server stops.
func (s *Server) waitForSockets(ctx context.Context) error {
	closed := make(chan struct{})
	go func() {
		s.sockets.Wait()
		close(closed)
	}()
	select {
	case <-closed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

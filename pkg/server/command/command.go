// Package command is the command line of gpuctl-server: its address, its certificate, and the cluster that it serves.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"g8s.host/gpu-scheduler/pkg/program"
	"g8s.host/gpu-scheduler/pkg/program/tracing"
	"g8s.host/gpu-scheduler/pkg/server"
)

type options struct {
	kubeconfig, listen string
	certFile, keyFile  string
	insecure           bool
	logFormat          string
	drain              time.Duration
	server             server.Options
	tracing            tracing.Options
}

// Main runs the program and returns its exit code.
func Main() int { return program.Main(New()) }

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	cmd := program.New(&cobra.Command{
		Use:   "gpuctl-server",
		Short: "Serve gpuctl's REST API",
		Long: "Serve gpuctl's REST API. Callers authenticate with a Kubernetes token, and all is done with their own rights.\n" +
			"The document of the API is at /openapi.json, a page to read at /docs, and the console at /console/.",
		Example: "  gpuctl-server --tls-cert-file tls.crt --tls-key-file tls.key\n" +
			"  gpuctl-server --listen 127.0.0.1:8080 --insecure --kubeconfig ~/.kube/config",
		RunE: func(cmd *cobra.Command, _ []string) error { return runServer(cmd.Context(), o, cmd.ErrOrStderr()) },
	})
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", ":8443", "Address to listen on")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "Certificate, with those of its issuers; read again when it changes")
	flags.StringVar(&o.keyFile, "tls-key-file", "", "Key of the certificate; read again when it changes")
	flags.BoolVar(&o.insecure, "insecure", false, "Serve without TLS; only on a loopback address, as tokens would be read on the way")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the server's own identity; without it that of its pod")
	flags.StringVar(&o.server.Prometheus, "prometheus-url", "", "Prometheus that has DCGM's metrics of GPUs")
	scheduler := &o.server.Scheduler
	flags.StringVar(&scheduler.Address, "scheduler", "", "Where the scheduler explains itself, such as https://gpu-scheduler.kube-system.svc:10260; "+
		"of a name with several addresses, all are asked")
	flags.StringVar(&scheduler.CA, "scheduler-ca", "", "File with the certificate that the scheduler's is signed by")
	flags.BoolVar(&scheduler.Insecure, "scheduler-insecure-skip-tls-verify", false, "Accept any certificate of the scheduler: whoever answers gets this server's token")
	ledger := &o.server.Ledger
	flags.StringVar(&ledger.Address, "ledger", "", "Where the ledger answers, such as https://gpu-ledger.kube-system.svc")
	flags.StringVar(&ledger.CA, "ledger-ca", "", "File with the certificate that the ledger's is signed by")
	flags.StringArrayVar(&o.server.Audiences, "token-audience", nil, "Audience that tokens must be for; without it the API server's; may be repeated")
	flags.DurationVar(&o.server.ReviewTTL, "review-ttl", 0, "How long a token or a right still works after it was taken away, in streams too (default 10s)")
	flags.StringArrayVar(&o.server.Origins, "cors-origin", nil, "Web origin whose pages may call, such as https://console.example.com; may be repeated")
	flags.BoolVar(&o.server.Console, "console", true, "Serve the console, a web page, at /console/; --console=false serves none and takes no cookies")
	flags.Float64Var(&o.server.Rate, "rate", server.DefaultRate, "Requests a second of each caller")
	flags.IntVar(&o.server.Burst, "burst", server.DefaultBurst, "Requests at once of each caller")
	flags.IntVar(&o.server.Streams, "max-streams", server.DefaultStreams, "Streams that each caller may have open at once")
	flags.Int64Var(&o.server.MaxBody, "max-body", server.DefaultMaxBody, "Size of the largest request in bytes")
	flags.DurationVar(&o.server.Grace, "shutdown-grace", server.DefaultGrace, "How long requests in flight have when the server stops")
	flags.DurationVar(&o.drain, "shutdown-delay", 0, "How long to go on serving after SIGTERM, while load balancers take note")
	flags.StringVar(&o.logFormat, "log-format", "json", "json or text")
	o.tracing.AddFlags(flags)
	return cmd
}

func runServer(ctx context.Context, o *options, stderr io.Writer) error {
	log, err := program.NewLogger(o.logFormat, stderr)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler())) // for the certificate watcher
	// Callers have their own limits.
	config, err := program.UnlimitedConfig(o.kubeconfig, "gpuctl-server")
	if err != nil {
		return err
	}
	o.server.Log, o.server.Version = log, program.Version()
	stop, err := o.tracing.Start(ctx, tracing.Program{Name: "gpuctl-server", Version: program.Version(), ReportError: func(err error) {
		log.WarnContext(ctx, "The collector takes no spans", "error", err)
	}})
	if err != nil {
		return err
	}
	defer stop()
	api, err := server.New(config, o.server)
	if err != nil {
		return err
	}
	certificate, err := o.loadCertificate()
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if o.insecure && !isLoopback(listener.Addr()) {
		return errors.Join(errNotLoopback, listener.Close())
	}
	log.Info("Serving", "address", listener.Addr().String(), "tls", !o.insecure, "version", o.server.Version)
	return serveAPI(ctx, api, listener, certificate, o.drain)
}

// serveAPI runs until ctx ends. The cache and the certificate stay up to date until the last request has ended.
func serveAPI(ctx context.Context, api *server.Server, listener net.Listener, certificate *certificate, drain time.Duration) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, background := errgroup.WithContext(background)
	group.Go(func() error { return api.RunCache(background) })
	group.Go(func() error { return certificate.watchFiles(background) })
	group.Go(func() error {
		defer stop()
		serving, end := context.WithCancel(background)
		defer end()
		defer context.AfterFunc(ctx, func() { time.AfterFunc(drain, end) })()
		return api.Serve(serving, listener, certificate.tlsConfig())
	})
	return group.Wait()
}

var errNotLoopback = errors.New("--insecure serves only on a loopback address, such as --listen 127.0.0.1:8080: " +
	"give --tls-cert-file and --tls-key-file for any other")

// isLoopback reports whether only this machine reaches an address.
func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

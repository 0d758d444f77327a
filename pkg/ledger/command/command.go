// Package command is the command line of gpu-ledger: the cluster that it records, the location and retention of the ledger, and its address.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/ledger/measure"
	"g8s.host/gpu-scheduler/pkg/ledger/recorder"
	"g8s.host/gpu-scheduler/pkg/ledger/server"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
	"g8s.host/gpu-scheduler/pkg/program"
)

type options struct {
	kubeconfig, listen string
	certFile, keyFile  string
	data               string
	retention          time.Duration
	budget             string
	prometheus         string
}

const (
	day = 24 * time.Hour
	// leastRetention is the shortest retention, which keeps the data of a bill.
	leastRetention = day
	// trimEvery is how often expired records are deleted.
	trimEvery = time.Hour
	fileName  = "ledger.db"
)

// Main runs the program and returns its exit code.
func Main() int { return program.Main(New()) }

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	cmd := program.New(&cobra.Command{
		Use:   "gpu-ledger",
		Short: "Write down who holds which GPU from when to when",
		Long: "Write down who holds which GPU from when to when, and what became of jobs, and answer who asks and may know.\n" +
			"docs/usage.md tells what is written down, and how exactly.",
		Example: "  gpu-ledger --data-dir /var/lib/gpu-ledger --tls-cert-file tls.crt --tls-key-file tls.key",
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.runLedger(cmd.Context(), cmd.ErrOrStderr()) },
	})
	flags := cmd.Flags()
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the ledger's own identity; without it that of its pod")
	flags.StringVar(&o.data, "data-dir", "", "Directory of the ledger's file, which must outlive the process")
	flags.DurationVar(&o.retention, "retention", 400*day, "How long what has ended is kept")
	flags.StringVar(&o.budget, "output-budget", "1Gi", "How much of what jobs have printed is kept, of a namespace a quarter of it; 0 keeps none")
	flags.StringVar(&o.prometheus, "prometheus-url", "", "Prometheus that has DCGM's metrics of GPUs; without one it is not kept how busy they were")
	flags.StringVar(&o.listen, "listen", ":8443", "Address to answer on, by HTTPS")
	flags.StringVar(&o.certFile, "tls-cert-file", "", "Certificate, with those of its issuers; read again when it changes")
	flags.StringVar(&o.keyFile, "tls-key-file", "", "Key of the certificate; read again when it changes")
	return cmd
}

// outputBudget returns the budget in bytes.
func (o *options) outputBudget() (int64, error) {
	quantity, err := resource.ParseQuantity(o.budget)
	if err != nil || quantity.Sign() < 0 {
		return 0, fmt.Errorf("--output-budget is %q, want an amount such as 1Gi, or 0", o.budget)
	}
	return quantity.Value(), nil
}

// validateFlags rejects invalid settings.
func (o *options) validateFlags() error {
	if _, err := o.outputBudget(); err != nil {
		return err
	}
	if _, err := gpumetrics.NewClient(o.prometheus, nil); err != nil {
		return fmt.Errorf("--prometheus-url: %w", err)
	}
	switch {
	case o.data == "":
		return errors.New("--data-dir is missing: name a directory that outlives the process")
	case o.certFile == "" || o.keyFile == "":
		return errors.New("--tls-cert-file and --tls-key-file are missing: callers send credentials")
	case o.retention < leastRetention:
		return fmt.Errorf("--retention is %s, want %s or more", o.retention, leastRetention)
	}
	return nil
}

func (o *options) runLedger(ctx context.Context, stderr io.Writer) (err error) {
	if err := o.validateFlags(); err != nil {
		return err
	}
	log := slog.New(slog.NewJSONHandler(stderr, nil))
	klog.SetLogger(logr.FromSlogHandler(log.Handler()))
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler())) // for the certificate watcher
	client, err := o.newClient()
	if err != nil {
		return err
	}
	gate, err := server.NewGate(client)
	if err != nil {
		return err
	}
	ledger, err := store.Open(filepath.Join(o.data, fileName), time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	web, err := o.newWebServer(ctx, server.Handler(server.Options{Store: ledger, Gate: gate, Log: log, Now: time.Now, Pods: recorder.FollowPods}), ledger.IsDiskFull, log)
	if err != nil {
		return err
	}
	measurer, err := o.newMeasurer(ledger, log)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return gate.Run(ctx) })
	group.Go(func() error { return web.serveUntilDone(ctx) })
	var outputs *recorder.Outputs
	if budget, _ := o.outputBudget(); budget > 0 { // it was checked
		outputs = recorder.NewOutputs(client, ledger, log, budget)
		group.Go(func() error { return outputs.Run(ctx) })
	}
	group.Go(func() error {
		return retryWhenFull(ctx, log, func() error {
			return (&recorder.Recorder{Client: client, Store: ledger, Log: log, Outputs: outputs}).Run(ctx)
		})
	})
	if measurer != nil {
		group.Go(func() error { return retryWhenFull(ctx, log, func() error { return measurer.Run(ctx) }) })
	}
	group.Go(func() error {
		return retryWhenFull(ctx, log, func() error { return o.trimPeriodically(ctx, ledger, log) })
	})
	log.Info("Recording", "file", filepath.Join(o.data, fileName), "address", web.listener.Addr().String(), "version", program.Version())
	if err := group.Wait(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// whenFull is how long a writer waits when the disk is full. It then resumes in the space that was freed.
const whenFull = 5 * time.Second

// retryWhenFull runs a writer of the ledger, and restarts it when the disk is full: a process that exited would be restarted on the same disk.
func retryWhenFull(ctx context.Context, log *slog.Logger, run func() error) error {
	for {
		err := run()
		if !store.IsFull(err) {
			return err
		}
		log.ErrorContext(ctx, "The disk is full: what is oldest of the namespaces with most is taken away; give the volume more room", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(whenFull):
		}
	}
}

// newMeasurer returns the recorder of GPU load, nil without Prometheus.
func (o *options) newMeasurer(ledger *store.Store, log *slog.Logger) (*measure.Measurer, error) {
	if o.prometheus == "" {
		return nil, nil
	}
	server, err := gpumetrics.NewClient(o.prometheus, nil)
	if err != nil {
		return nil, fmt.Errorf("--prometheus-url: %w", err)
	}
	return &measure.Measurer{Book: ledger, Prometheus: server, Pods: recorder.FollowPods, Log: log, Now: time.Now}, nil
}

func (o *options) newClient() (kubernetes.Interface, error) {
	config, err := program.UnlimitedConfig(o.kubeconfig, "gpu-ledger")
	if err != nil {
		return nil, err
	}
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return client, nil
}

// trimPeriodically deletes expired records until ctx ends.
func (o *options) trimPeriodically(ctx context.Context, ledger *store.Store, log *slog.Logger) error {
	for {
		count, err := ledger.Trim(time.Now().Add(-o.retention))
		if err != nil {
			return fmt.Errorf("taking away what is older than %s: %w", o.retention, err)
		}
		if count > 0 {
			log.InfoContext(ctx, "Took away what is too old", "records", count)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(trimEvery):
		}
	}
}

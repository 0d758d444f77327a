// Package tracing sends the spans of a program to an OpenTelemetry collector if a configuration file is given. Without the file the program uses
// OpenTelemetry's no-op tracer. An unresponsive collector costs only spans: they wait in a bounded queue, and the excess is dropped.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componenttracing "k8s.io/component-base/tracing"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	"sigs.k8s.io/yaml"
)

const (
	// sendTimeout is how long the collector has to accept a batch, and shutdownTimeout the rest at the program's end.
	sendTimeout     = 5 * time.Second
	shutdownTimeout = 2 * time.Second
	// complainInterval is how often failures of the collector are reported.
	complainInterval = time.Minute
)

// Options are the flags of tracing.
type Options struct{ file string }

// AddFlags adds the flags.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.file, "tracing-config-file", "",
		"File that says where to send spans by OpenTelemetry, and of how many: a TracingConfiguration as the API server reads it. "+
			"Without it none are sent")
}

// IsEnabled reports whether a file was given.
func (o *Options) IsEnabled() bool { return o.file != "" }

// Program identifies the source of the spans.
type Program struct {
	Name, Version string
	// ReportError gets errors of the collector, at a limited rate.
	ReportError func(error)
}

// Start makes all OpenTelemetry tracers send from now on, if a file was given. stop sends what is left, within two seconds.
func (o *Options) Start(ctx context.Context, p Program) (stop func(), err error) {
	if !o.IsEnabled() {
		return func() {}, nil
	}
	config, err := readConfig(o.file)
	if err != nil {
		return nil, fmt.Errorf("reading --tracing-config-file %s: %w", o.file, err)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("naming this instance in spans: %w", err)
	}
	// Without retries a rejected batch is dropped, and the queue moves on.
	send := []otlptracegrpc.Option{otlptracegrpc.WithTimeout(sendTimeout), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{})}
	provider, err := componenttracing.NewProvider(ctx, config, send, []resource.Option{resource.WithAttributes(
		attribute.String("service.name", p.Name), attribute.String("service.version", p.Version), attribute.String("service.instance.id", host),
	)})
	if err != nil {
		return nil, fmt.Errorf("setting up tracing: %w", err)
	}
	sometimes := &rate.Sometimes{Interval: complainInterval}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { sometimes.Do(func() { p.ReportError(err) }) }))
	otel.SetTracerProvider(provider)
	return func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := provider.Shutdown(last); err != nil {
			p.ReportError(err)
		}
	}, nil
}

// file is the API server's tracing configuration, in any of its versions.
type file struct {
	metav1.TypeMeta `json:",inline"`

	tracingv1.TracingConfiguration `json:",inline"`
}

// groupVersions are the accepted versions of the file. An empty one is accepted, too.
var groupVersions = map[string]bool{
	"": true, "apiserver.config.k8s.io/v1": true, "apiserver.config.k8s.io/v1beta1": true, "apiserver.config.k8s.io/v1alpha1": true,
}

func readConfig(name string) (*tracingv1.TracingConfiguration, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller names the file
	}
	var read file
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		return nil, err //nolint:wrapcheck // the caller names the file
	}
	if !groupVersions[read.APIVersion] || read.Kind != "" && read.Kind != "TracingConfiguration" {
		return nil, fmt.Errorf("it is a %s of %s, want a TracingConfiguration of apiserver.config.k8s.io/v1", read.Kind, read.APIVersion)
	}
	config := &read.TracingConfiguration
	if config.SamplingRatePerMillion == nil {
		// The API server follows the caller's decision in this case. We do not: a caller could have each of its requests sent.
		return nil, errors.New("samplingRatePerMillion is missing: say of how many in a million spans are sent, 1000000 for all")
	}
	if err := tracingv1.ValidateTracingConfiguration(config, nil, nil).ToAggregate(); err != nil {
		return nil, err
	}
	return config, nil
}

package cli

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/gpumetrics"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/usage"
)

// envPrometheus is the environment variable that says where Prometheus is.
const envPrometheus = "GPUCTL_PROMETHEUS"

// prometheusOptions say where Prometheus is: the flag, else the environment, else the configuration file.
type prometheusOptions struct{ address string }

func (o *prometheusOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.address, "prometheus", "",
		"Prometheus that has the metrics of the GPUs: a URL, or NAMESPACE/SERVICE:PORT through the API server")
}

// newMetrics returns a reader of GPU metrics, or nil if no source is configured.
func (o *prometheusOptions) newMetrics(f *Factory) (usage.Metrics, error) {
	config, err := readUserConfig()
	if err != nil {
		return nil, err
	}
	address := cmp.Or(o.address, os.Getenv(envPrometheus), config.Prometheus)
	if address == "" {
		return nil, nil
	}
	client, err := o.newClient(f, address)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (gpumetrics.Samples, error) { return client.ReadSamples(ctx, f.Now()) }, nil
}

// newClient returns a client for a URL, or for a service of the cluster through the API server's proxy.
func (o *prometheusOptions) newClient(f *Factory, address string) (*gpumetrics.Client, error) {
	if strings.HasPrefix(address, "http://") || strings.HasPrefix(address, "https://") {
		return gpumetrics.NewClient(address, nil)
	}
	namespace, service, ok := strings.Cut(address, "/")
	if !ok || namespace == "" || service == "" || strings.Contains(service, "/") {
		return nil, usageErrorf("the address of Prometheus is %q, want a URL such as http://prometheus:9090, or NAMESPACE/SERVICE:PORT", address)
	}
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	url, transport, err := throughAPIServer(config, namespace, service)
	if err != nil {
		return nil, err
	}
	return gpumetrics.NewClient(url, transport)
}

// throughAPIServer returns the address of a service at the API server's proxy, and a transport that authenticates there.
func throughAPIServer(config *rest.Config, namespace, service string) (string, http.RoundTripper, error) {
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", nil, phrase.Errorf("connecting to the cluster: %w", err)
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", nil, phrase.Errorf("connecting to the cluster: %w", err)
	}
	return base.JoinPath("api/v1/namespaces", namespace, "services", service, "proxy").String(), transport, nil
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/diagnosis"
	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/explain/serve"
)

// schedulerOptions say where the scheduler serves its records.
type schedulerOptions struct {
	address  string
	ca       string
	insecure bool
}

func (o *schedulerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.address, "scheduler", "", "Address of the scheduler's explanations, such as https://localhost:10260. "+
		"Your credentials of the kubeconfig are sent there")
	flags.StringVar(&o.ca, "scheduler-ca", "", "File with the certificate that the scheduler's is signed by")
	flags.BoolVar(&o.insecure, "scheduler-insecure-skip-tls-verify", false, "Accept any certificate of the scheduler")
}

func (o *schedulerOptions) validate() error {
	if o.address == "" {
		return nil
	}
	if parsed, err := url.Parse(o.address); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return usagef("--scheduler is %q, want an address such as https://localhost:10260", o.address)
	}
	if o.ca != "" && o.insecure {
		return usagef("--scheduler-ca and --scheduler-insecure-skip-tls-verify contradict each other")
	}
	return nil
}

// records reads the scheduler's records of a job. A scheduler that does not answer is no reason to say nothing: the
// diagnosis goes on without, and the user is told.
func (o *whyOptions) records(ctx context.Context, facts *diagnosis.Facts) ([]explain.Record, error) {
	if o.scheduler.address == "" {
		return nil, nil
	}
	config, err := o.factory.config()
	if err != nil {
		return nil, err
	}
	path := serve.Root + "pods/" + url.PathEscape(facts.Job.Namespace) + "/?job=" + url.QueryEscape(facts.Job.Name)
	records, err := o.scheduler.get(ctx, config, path)
	if err != nil {
		fmt.Fprintf(o.factory.IO.ErrOut, "warning: the scheduler's records are left out: %v\n", err)
		return nil, nil
	}
	return slices.DeleteFunc(records, func(record explain.Record) bool {
		return !slices.ContainsFunc(facts.Pods, func(pod corev1.Pod) bool { return pod.UID == record.UID })
	}), nil
}

// get asks the scheduler as the user of the kubeconfig.
func (o *schedulerOptions) get(ctx context.Context, config *rest.Config, path string) ([]explain.Record, error) {
	own := rest.CopyConfig(config)
	own.Host = o.address
	// The certificate authority of the API server says nothing about the scheduler's certificate.
	own.CAFile, own.CAData, own.ServerName, own.Insecure = o.ca, nil, "", o.insecure
	client, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("connecting to the scheduler: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(o.address, "/")+path, nil)
	if err != nil {
		return nil, fmt.Errorf("asking the scheduler: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the scheduler: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	return decodeRecords(response)
}

// mostRead bounds what is read of an answer.
const mostRead = 64 << 20

func decodeRecords(response *http.Response) ([]explain.Record, error) {
	body := json.NewDecoder(io.LimitReader(response.Body, mostRead))
	switch response.StatusCode {
	case http.StatusOK:
		var answer serve.List
		if err := body.Decode(&answer); err != nil {
			return nil, fmt.Errorf("reading the scheduler's answer: %w", err)
		}
		return answer.Items, nil
	case http.StatusServiceUnavailable:
		var failure serve.Failure
		if err := body.Decode(&failure); err == nil && failure.Leader != "" {
			return nil, fmt.Errorf("%s, which is %s", failure.Error, failure.Leader)
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, fmt.Errorf("you may not read %s* there: ask the administrators for the ClusterRole g8s:explain-reader", serve.Root)
	}
	return nil, fmt.Errorf("the scheduler answers %s", response.Status)
}

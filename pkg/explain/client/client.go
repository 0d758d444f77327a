// Package client reads the records of schedulers, which package server serves, to explain placements to users.
//
// Only the leader has records, and a client cannot tell which process that is, so it asks all known ones.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/explain"
	"g8s.host/gpu-scheduler/pkg/explain/server"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/serverclient"
)

// Options contain the address of the schedulers' records. If the host of the address resolves to several processes, each is asked.
type Options serverclient.Options

// Validate validates the options.
func (o *Options) Validate() error {
	return (*serverclient.Options)(o).Validate("scheduler", "https://localhost:10260")
}

// Client asks schedulers.
type Client struct {
	address *url.URL
	http    *http.Client
}

// New returns a client with the credentials of config, which are for the API server of the same cluster.
func New(config *rest.Config, o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	address, err := url.Parse(o.Address)
	if err != nil {
		return nil, phrase.Errorf("reading the scheduler's address: %w", err)
	}
	// Each process is reached by its IP address, and must prove to be of the given name.
	client, err := serverclient.New(config, (*serverclient.Options)(&o), address.Hostname())
	if err != nil {
		return nil, phrase.Errorf("connecting to the scheduler: %w", err)
	}
	return &Client{address: address, http: client}, nil
}

// RecordsPath returns the path of the records of a job's pods, or of all pods of a namespace for the job "". The right to get this path is the right
// to read the records.
func RecordsPath(namespace, job string) string {
	path := server.Root + "pods/" + url.PathEscape(namespace) + "/"
	if job != "" {
		path += "?job=" + url.QueryEscape(job)
	}
	return path
}

// Job reads the records of a job's pods.
func (c *Client) Job(ctx context.Context, namespace, job string) ([]explain.Record, error) {
	hosts, err := net.DefaultResolver.LookupHost(ctx, c.address.Hostname())
	if err != nil {
		return nil, phrase.Errorf("finding the scheduler: %w", err)
	}
	var failures []error
	for _, host := range hosts {
		records, err := c.getRecords(ctx, host, RecordsPath(namespace, job))
		if err == nil {
			return records, nil
		}
		failures = append(failures, err)
	}
	return nil, errors.Join(failures...)
}

// getRecords reads the records from one process.
func (c *Client) getRecords(ctx context.Context, host, path string) ([]explain.Record, error) {
	base := *c.address
	if base.Host = host; strings.Contains(host, ":") {
		base.Host = "[" + host + "]"
	}
	if port := c.address.Port(); port != "" {
		base.Host = net.JoinHostPort(host, port)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base.String(), "/")+path, nil)
	if err != nil {
		return nil, phrase.Errorf("asking the scheduler: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, phrase.Errorf("asking the scheduler: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // already read
	return decodeRecords(response)
}

func decodeRecords(response *http.Response) ([]explain.Record, error) {
	body := json.NewDecoder(io.LimitReader(response.Body, serverclient.MaxResponseBytes))
	switch response.StatusCode {
	case http.StatusOK:
		var answer server.List
		if err := body.Decode(&answer); err != nil {
			return nil, phrase.Errorf("reading the scheduler's answer: %w", err)
		}
		return answer.Items, nil
	case http.StatusServiceUnavailable:
		var failure server.Failure
		if err := body.Decode(&failure); err == nil && failure.Leader != "" {
			return nil, phrase.Errorf("%s, which is %s", failure.Error, failure.Leader)
		}
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, phrase.Errorf("you may not read %s* there: ask the administrators for the ClusterRole g8s:explain-reader", server.Root)
	}
	return nil, phrase.Errorf("the scheduler answers %s", response.Status)
}

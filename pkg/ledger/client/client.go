// Package client queries the ledger, which package server serves, with the user's credentials for the API server.
package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/phrase"
	"g8s.host/gpu-scheduler/pkg/serverclient"
)

// Options are the address of the ledger.
type Options serverclient.Options

// Validate returns what is wrong with the options.
func (o *Options) Validate() error {
	return (*serverclient.Options)(o).Validate("ledger", "https://gpu-ledger.example.com")
}

// Client queries one ledger.
type Client struct {
	address string
	http    *http.Client
}

// New returns a client that uses the credentials of config, which are for the API server of the same cluster.
func New(config *rest.Config, o Options) (*Client, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	client, err := serverclient.New(config, (*serverclient.Options)(&o), "")
	if err != nil {
		return nil, phrase.Errorf("connecting to the ledger: %w", err)
	}
	return &Client{address: strings.TrimSuffix(o.Address, "/"), http: client}, nil
}

// Query selects what to read. Zero fields match anything.
type Query struct {
	// Namespaces are those to query, none for all.
	Namespaces []string
	// By are the keys to sum usage by.
	By               []ledger.Key
	Name, User, Pool string
	Since, Until     time.Time
	// Limit bounds the jobs to return.
	Limit int
}

func (q *Query) urlValues() url.Values {
	out := url.Values{"namespace": q.Namespaces}
	set := func(name, value string) {
		if value != "" {
			out.Set(name, value)
		}
	}
	var by []string
	for _, key := range q.By {
		by = append(by, string(key))
	}
	set("by", strings.Join(by, ","))
	set("name", q.Name)
	set("user", q.User)
	set("pool", q.Pool)
	if !q.Since.IsZero() {
		set("since", q.Since.UTC().Format(time.RFC3339))
	}
	if !q.Until.IsZero() {
		set("until", q.Until.UTC().Format(time.RFC3339))
	}
	if q.Limit > 0 {
		set("limit", strconv.Itoa(q.Limit))
	}
	return out
}

// Usage returns GPU usage.
func (c *Client) Usage(ctx context.Context, q Query) (out ledger.Usage, err error) {
	return out, c.getJSON(ctx, "usage?"+q.urlValues().Encode(), &out)
}

// Jobs returns finished jobs. The second result reports whether there are more.
func (c *Client) Jobs(ctx context.Context, q Query) ([]ledger.Job, bool, error) {
	var out ledger.JobList
	err := c.getJSON(ctx, "jobs?"+q.urlValues().Encode(), &out)
	return out.Items, out.More, err
}

// mostOfRuns bounds an answer with runs in bytes, because the scheduler reads them, too, and has little memory to spare. It allows some 800 bytes for
// each run worth reading.
const mostOfRuns = 4 << 20

// Runs returns how long jobs held GPUs. The second result reports whether there are more.
func (c *Client) Runs(ctx context.Context, q Query) ([]ledger.Run, bool, error) {
	var out ledger.RunList
	err := c.getWithin(ctx, "runs?"+q.urlValues().Encode(), mostOfRuns, &out)
	return out.Items, out.More, err
}

// Job returns one job with the holdings of its pods.
func (c *Client) Job(ctx context.Context, namespace, uid string) (out ledger.JobDetail, err error) {
	return out, c.getJSON(ctx, "jobs/"+url.PathEscape(namespace)+"/"+url.PathEscape(uid), &out)
}

// Output returns the end of the output of a job's containers, the last first, optionally of one pod and of one container. The second result reports
// whether there is more.
func (c *Client) Output(ctx context.Context, namespace, job, pod, container string) ([]ledger.Output, bool, error) {
	query := url.Values{}
	for name, value := range map[string]string{"pod": pod, "container": container} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var out ledger.OutputList
	err := c.getJSON(ctx, "output/"+url.PathEscape(namespace)+"/"+url.PathEscape(job)+"?"+query.Encode(), &out)
	return out.Items, out.More, err
}

// Error is an error answer of the ledger.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *Error) Message() phrase.Text { return phrase.Textf("the ledger says: %s", e.Text) }

// UnreachableError means that no ledger answers at its address.
type UnreachableError struct {
	Address string
	Err     error
}

func (e *UnreachableError) Error() string { return e.Message().String() }

// Message implements [phrase.LocalizedError].
func (e *UnreachableError) Message() phrase.Text { return phrase.Textf("asking the ledger: %s", e.Err) }

// Unwrap returns the cause.

func (e *UnreachableError) Unwrap() error { return e.Err }

func (c *Client) getJSON(ctx context.Context, path string, into any) error {
	return c.getWithin(ctx, path, serverclient.MaxResponseBytes, into)
}

// getWithin reads at most a number of bytes of an answer.
func (c *Client) getWithin(ctx context.Context, path string, most int64, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.address+ledger.APIRoot+path, nil)
	if err != nil {
		return phrase.Errorf("asking the ledger: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return &UnreachableError{Address: c.address, Err: err}
	}
	defer func() { _ = response.Body.Close() }() // the body has been read
	body := json.NewDecoder(io.LimitReader(response.Body, most))
	if response.StatusCode != http.StatusOK {
		var failure ledger.Failure
		if err := body.Decode(&failure); err != nil || failure.Error == "" {
			return phrase.Errorf("asking the ledger: the server at %s answers %s", c.address, response.Status)
		}
		return &Error{Status: response.StatusCode, Text: failure.Error}
	}
	if err := body.Decode(into); err != nil {
		return phrase.Errorf("reading the ledger's answer: %w", err)
	}
	return nil
}

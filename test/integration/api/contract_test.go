package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/server"
)

// contract is the OpenAPI document of a server, read by a library that had no part in writing it.
type contract struct {
	doc        *openapi3.T
	operations []operation
}

// operation is one operation of the document.
type operation struct {
	id, method, path string
	public           bool
	spec             *openapi3.Operation
}

// document reads and validates the document.
func (a *api) document() *contract {
	a.Helper()
	got := a.do(request{path: "/openapi-3.0.json"})
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(got.body)
	if err != nil {
		a.Fatal(err)
	}
	if err := doc.Validate(a.Context(), openapi3.DisableExamplesValidation()); err != nil {
		a.Fatalf("the document is not valid: %v", err)
	}
	c := &contract{doc: doc}
	for path, item := range doc.Paths.Map() {
		for method, spec := range item.Operations() {
			public := spec.Security == nil || len(*spec.Security) == 0
			c.operations = append(c.operations, operation{id: spec.OperationID, method: method, path: path, public: public, spec: spec})
		}
	}
	slices.SortFunc(c.operations, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	if len(c.operations) < 50 {
		a.Fatalf("the document has %d operations, so it would prove nothing", len(c.operations))
	}
	return c
}

// check demands that an answer is one that the document promises: its status, its type and every field of it.
func (c *contract) check(t *testing.T, o operation, got response) {
	t.Helper()
	if o.spec.Responses.Status(got.status) == nil {
		t.Errorf("%s answers %d, which the document does not promise: %.300s", o.id, got.status, got.body)
		return
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: &http.Request{Method: o.method},
			Route:   &routers.Route{Spec: c.doc, Operation: o.spec, Method: o.method, Path: o.path},
		},
		Status: got.status, Header: got.header,
		Body:    io.NopCloser(bytes.NewReader(got.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if strings.HasPrefix(got.header.Get("Content-Type"), "text/plain") {
		return // metrics: their format is Prometheus' own
	}
	if err := openapi3filter.ValidateResponse(t.Context(), input); err != nil {
		t.Errorf("%s: the answer %d is not what the document promises: %v\n%.600s", o.id, got.status, err, got.body)
	}
}

// TestFailuresThatEveryRouteShares provokes, on each route that documents it, a failure that has nothing to do with
// what the route does.
func TestFailuresThatEveryRouteShares(t *testing.T) {
	a := start(t, server.Options{})
	limited := start(t, server.Options{Rate: 1e-6, Burst: 30})
	for limited.do(request{path: "/api/v1/pools", user: admin}).status != http.StatusTooManyRequests {
	}
	document := a.document()
	for _, o := range document.operations {
		t.Run(o.id, func(t *testing.T) {
			s := samples[o.id]
			ask := func(status int, on *api, r request) {
				t.Helper()
				if o.spec.Responses.Status(status) == nil {
					return
				}
				got := on.do(r)
				if got.status != status {
					t.Errorf("status %d, want %d: %.300s", got.status, status, got.body)
				}
				document.check(t, o, got)
			}
			valid := request{method: o.method, path: s.url(o.path), user: admin, body: s.body}
			if !o.public {
				ask(http.StatusTooManyRequests, limited, valid)
			}
			if o.spec.RequestBody != nil {
				broken, huge, invalid := valid, valid, valid
				broken.body, huge.body, invalid.body = "{", strings.Repeat("a", server.DefaultMaxBody+1), `{"unknown": 1}`
				ask(http.StatusBadRequest, a, broken)
				ask(http.StatusRequestEntityTooLarge, a, huge)
				ask(http.StatusUnprocessableEntity, a, invalid)
			}
		})
	}
}

// TestAServerWithoutACluster answers 503 on every route that needs one, in the documented form.
func TestAServerWithoutACluster(t *testing.T) {
	document := start(t, server.Options{}).document()
	nowhere, err := server.New(&rest.Config{Host: "https://127.0.0.1:1", QPS: -1}, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dead := &api{T: t, Server: httptest.NewServer(nowhere.Handler())}
	t.Cleanup(dead.Close)
	for _, o := range document.operations {
		if o.public {
			continue
		}
		t.Run(o.id, func(t *testing.T) {
			t.Parallel()
			s := samples[o.id]
			got := dead.do(request{method: o.method, path: s.url(o.path), user: admin, body: s.body})
			if got.status != http.StatusServiceUnavailable {
				t.Errorf("%s: status %d, want 503: %.200s", o.id, got.status, got.body)
			}
			document.check(t, o, got)
		})
	}
}

// TestAnExplanationCountsAsSeveralRequests: a burst of seven holds two of them and one request of another kind.
func TestAnExplanationCountsAsSeveralRequests(t *testing.T) {
	limited := start(t, server.Options{Rate: 1e-6, Burst: 7})
	explain := request{path: jobs + "/missing/explain?namespace=team", user: admin}
	for range 2 {
		limited.want(http.StatusNotFound, explain)
	}
	if refusal := fmt.Sprint(limited.want(http.StatusTooManyRequests, explain)); !strings.Contains(refusal, "(this one counts as 3)") {
		t.Errorf("%s does not say what it counts as", refusal)
	}
	limited.want(http.StatusOK, request{path: "/api/v1/pools", user: admin})
	limited.want(http.StatusTooManyRequests, request{path: "/api/v1/pools", user: admin})
}

package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Root is the path that all routes of the API begin with.
const Root = "/api/v1"

// route declares one operation: what the OpenAPI document shows, and what request validation uses.
type route struct {
	method, path string
	// id names the operation, and its method in generated clients.
	id, tag string
	// summary is one line; detail says more.
	summary, detail string
	// status is that of a success; 0 means 200.
	status int
	// fails are the statuses of failures, beside those that every route has.
	fails []int
	// public routes need no token. anyone routes need a token and no specific right.
	public, anyone bool
	// weight is how many requests it counts as for the rate of its caller; 0 means 1. It grows with what a request costs the API server, which the callers
	// share: an explanation is a dozen lists there.
	weight int
	// replies are the answers by status that the output type does not describe.
	replies map[int]*huma.Response
}

// bearer is the name of the one way to authenticate.
const bearer = "bearerToken"

// commonFailures lists the failures of every authenticated route.
var commonFailures = []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable}

// newAPI makes the API without routes.
func newAPI(mux *http.ServeMux, version string) huma.API {
	useFailures()
	huma.DefaultArrayNullable = false
	config := huma.DefaultConfig("gpuctl", version)
	config.Info.Description = "Submit, watch and change GPU jobs, pools and quotas: what gpuctl does, for programs."

	config.CreateHooks = nil // they add $schema to every answer
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.Formats = bodyFormats()
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", schemaName)
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[resource.Quantity](), reflect.TypeFor[string]()) // as JSON has it
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{bearer: {
		Type: "http", Scheme: "bearer",
		Description: "A Kubernetes token, such as `kubectl create token SERVICEACCOUNT` prints. What is done is done with the rights of its owner.",
	}}
	config.Servers = []*huma.Server{{URL: "/"}}
	api := humago.New(mux, config)
	api.UseMiddleware(rejectUnknownQuery(api))
	return api
}

// schemaName names the schema of a type in the document. Types of our other packages get their package as a prefix, because two packages may have
// types of one name.
func schemaName(t reflect.Type, hint string) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := huma.DefaultSchemaNamer(t, hint)
	folder, own := path.Base(t.PkgPath()), path.Base(reflect.TypeFor[route]().PkgPath())
	if t.Name() == "" || folder == own || !strings.HasPrefix(t.PkgPath(), ourModule) {
		return name
	}
	return strings.ToUpper(folder[:1]) + folder[1:] + name
}

// ourModule begins the paths of our packages.
const ourModule = "g8s.host/gpu-scheduler/"

// registerRoute adds a route. Errors of the handler become answers in [failureFromError].
func registerRoute[I, O any](s *Server, r route, handle func(context.Context, *I) (*O, error)) {
	_, hasBody := reflect.TypeFor[I]().FieldByName("Body")
	if r.weight > 1 {
		s.weights[r.method+" "+r.path] = r.weight
		r.detail = strings.TrimSpace(fmt.Sprintf("%s It counts as %d requests for the rate of its caller.", r.detail, r.weight))
	}
	huma.Register(s.api, s.routeOperation(r, hasBody), func(ctx context.Context, input *I) (*O, error) {
		endDecoding(ctx)
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		output, err := handle(ctx, input)
		if err == nil {
			return output, nil
		}
		failed := failureFromError(ctx, err)
		s.logFailure(ctx, failed, r.id, err)
		if failed.status == http.StatusTooManyRequests || failed.status == http.StatusServiceUnavailable {
			return nil, huma.ErrorWithHeaders(failed, http.Header{"Retry-After": {"1"}})
		}
		return nil, failed
	})
}

// logFailure logs server failures at a higher level than client failures.
func (s *Server) logFailure(ctx context.Context, failed *Failure, operation string, err error) {
	level := slog.LevelDebug
	switch {
	case errors.Is(ctx.Err(), context.Canceled): // the client gave up waiting
	case failed.status == http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case failed.status >= http.StatusInternalServerError:
		level = slog.LevelError
	}
	s.options.Log.Log(ctx, level, "Request failed", "requestId", failed.RequestID, "operation", operation, "error", err)
}

func (s *Server) routeOperation(r route, hasBody bool) huma.Operation {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	op := huma.Operation{
		OperationID: r.id, Method: r.method, Path: r.path, Tags: []string{r.tag},
		Summary: r.summary, Description: r.detail, DefaultStatus: r.status, MaxBodyBytes: s.options.MaxBody,
		Responses: map[string]*huma.Response{},
		// [Server.withBodyLimits] has already read the body. Without -1, huma sets its own 5-second deadline on the connection.
		BodyReadTimeout: -1,
	}
	if !r.public {
		op.Security = []map[string][]string{{bearer: {}}}
	}
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Failure](), true, "Failure")
	body := map[string]*huma.MediaType{jsonType: {Schema: schema}}
	for _, status := range r.failureStatuses(hasBody) {
		op.Responses[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: body}
	}
	op.Responses["default"] = &huma.Response{Description: "Any other failure", Content: body}
	for status, reply := range r.replies {
		op.Responses[strconv.Itoa(status)] = reply
	}
	return op
}

// failureStatuses are the statuses of failures that a route can have.
func (r *route) failureStatuses(hasBody bool) []int {
	fails := slices.Clone(r.fails)
	if !r.public {
		fails = append(fails, commonFailures...)
	}
	if !r.public && !r.anyone {
		fails = append(fails, http.StatusForbidden)
	}
	if slices.Contains([]string{http.MethodPut, http.MethodPatch, http.MethodDelete}, r.method) {
		fails = append(fails, http.StatusPreconditionFailed)
	}
	if hasBody {
		fails = append(fails, http.StatusBadRequest, http.StatusRequestEntityTooLarge)
	}
	if !r.public {
		fails = append(fails, http.StatusUnprocessableEntity)
	}
	return fails
}

// jsonReply describes a JSON reply of type T, plus an event stream where one is given.
func jsonReply[T any](s *Server, description string, events ...*huma.MediaType) *huma.Response {
	t := reflect.TypeFor[T]()
	content := map[string]*huma.MediaType{
		jsonType: {Schema: s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())},
	}
	for _, stream := range events {
		content[streamType] = stream
	}
	return &huma.Response{Description: description, Content: content}
}

// errNoCaller cannot happen behind the authentication middleware. It stops a route outside of it from answering.
var errNoCaller = errors.New("the request was not authenticated")

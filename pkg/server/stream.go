package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"k8s.io/apimachinery/pkg/util/wait"
)

// stream writes server-sent events. huma's own implementation has only numeric event IDs, which cannot tell processes or pod logs apart.
type stream struct {
	mu      sync.Mutex // held while writing
	out     http.ResponseWriter
	control *http.ResponseController
}

const (
	// eventTimeout is how long a client may take to accept one event.
	eventTimeout = 10 * time.Second
	// heartbeatInterval is the interval of heartbeats, which keep proxies from closing an idle stream.
	heartbeatInterval = 15 * time.Second
	// retryDelay is how long clients should wait before they reconnect.
	retryDelay = 2 * time.Second
)

// streamResponse sends events until serve returns, the client disconnects, its token or its rights end, or the server stops.
func (s *Server) streamResponse(ctx context.Context, may rightsCheck, serve func(context.Context, *stream) error) (*huma.StreamResponse, error) {
	leave, err := s.open.openStream(ctx)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer leave()
		r, w := humago.Unwrap(hctx)
		ctx, cancel := s.streamContext(r.Context(), may)
		defer cancel()
		out := &stream{out: w, control: http.NewResponseController(w)}
		if err := out.beginStream(); err != nil {
			return
		}
		err := serve(ctx, out)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if isWorthReporting(err) {
			failed := failureFromError(r.Context(), err)
			s.logFailure(ctx, failed, hctx.Operation().OperationID, err)
			_ = out.sendEvent("error", "", failed) // the client is gone
		}
	}}, nil
}

// errClientGone means that a client has left or reads too slowly.
var errClientGone = errors.New("writing to the client")

// isWorthReporting reports whether the client needs the reason why its stream ended. Browsers reconnect by themselves when a server stops.
func isWorthReporting(err error) bool {
	return err != nil && !errors.Is(err, errClientGone) && !errors.Is(err, context.Canceled) && !errors.Is(err, errStopping)
}

func (s *stream) beginStream() error {
	s.out.Header().Set("Content-Type", streamType)
	s.out.Header().Set("X-Accel-Buffering", "no")
	// Test writers do not support deadlines. On a real connection the read deadline would end the stream.
	_ = s.control.SetReadDeadline(time.Time{})
	s.out.WriteHeader(http.StatusOK)
	return s.writeBytes([]byte(fmt.Sprintf("retry: %d\n\n", retryDelay.Milliseconds())))
}

// sendEvent writes one event. Data is encoded as JSON, which has no line breaks.
func (s *stream) sendEvent(event, id string, data any) error {
	body, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encoding an event: %w", err)
	}
	var b bytes.Buffer
	if id != "" {
		fmt.Fprintf(&b, "id: %s\n", id)
	}
	fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", event, body)
	return s.writeBytes(b.Bytes())
}

// sendHeartbeat writes a comment, which clients ignore.
func (s *stream) sendHeartbeat() error { return s.writeBytes([]byte(":\n\n")) }

// keepAlive writes comments at every heartbeat until the returned function is called.
func (s *stream) keepAlive(ctx context.Context) (stop func()) {
	return repeatAtHeartbeat(ctx, func() { _ = s.sendHeartbeat() }) // a client that is gone ends ctx
}

// repeatAtHeartbeat calls a function at every heartbeat until ctx ends or the returned function is called.
func repeatAtHeartbeat(ctx context.Context, do func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait.UntilWithContext(ctx, func(context.Context) { do() }, heartbeatInterval)
	}()
	return func() { cancel(); <-done }
}

func (s *stream) writeBytes(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.control.SetWriteDeadline(time.Now().Add(eventTimeout)) // test writers do not support it
	if _, err := s.out.Write(p); err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	if err := s.control.Flush(); err != nil {
		return fmt.Errorf("%w: %w", errClientGone, err)
	}
	return nil
}

// wantsStream reports whether a client accepts events, explicitly or because it states no preference.
func wantsStream(accept string) bool {
	return accept == "" || strings.Contains(accept, streamType) || strings.Contains(accept, "*/*")
}

// streamedEvent is a kind of event of a stream: its name, and a value of the type of its data, nil for an empty object.
type streamedEvent struct {
	name string
	data any
}

// eventStream describes a stream in the document. OpenAPI 3 has no schema for events, so the stream is, as generators read it, a list of them: each is one
// of the schemas that are named after the stream, by its event.
func (s *Server) eventStream(name string, events ...streamedEvent) *huma.MediaType {
	registry := s.api.OpenAPI().Components.Schemas
	const schemas = "#/components/schemas/"
	union := &huma.Schema{Discriminator: &huma.Discriminator{PropertyName: "event", Mapping: map[string]string{}}}
	for _, event := range events {
		data := &huma.Schema{Type: huma.TypeObject}
		if event.data != nil {
			t := reflect.TypeOf(event.data)
			data = registry.Schema(t, true, t.Name())
		}
		one := name + strings.ToUpper(event.name[:1]) + event.name[1:]
		registry.Map()[one] = &huma.Schema{
			Type: huma.TypeObject, Required: []string{"data", "event"},
			Properties: map[string]*huma.Schema{
				"id":    {Type: huma.TypeString, Description: "What to send as Last-Event-ID to go on after it; not on every event"},
				"event": {Type: huma.TypeString, Enum: []any{event.name}},
				"data":  data,
			},
		}
		union.OneOf = append(union.OneOf, &huma.Schema{Ref: schemas + one})
		union.Discriminator.Mapping[event.name] = schemas + one
	}
	registry.Map()[name] = union
	return &huma.MediaType{Schema: &huma.Schema{
		Type: huma.TypeArray, Description: "Server-sent events, one after the other", Items: &huma.Schema{Ref: schemas + name},
	}}
}

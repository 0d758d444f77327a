package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"g8s.host/gpu-scheduler/pkg/server/access"
)

type mapInput struct {
	Watch     bool   `query:"watch" doc:"Answer with events: the map as it is, and then every change"`
	Accept    string `header:"Accept" doc:"text/event-stream, to watch"`
	Encodings string `header:"Accept-Encoding" doc:"gzip, for a sixth of the size"`
}

// mapInterval is the least time between two events of a map: changes within it are sent together.
const mapInterval = 250 * time.Millisecond

func (s *Server) mapRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/map", id: "getMap", tag: "nodes",
		summary: "Every GPU of the cluster in columns, with who holds it and what fits, or its changes",
		detail: "For maps of many nodes: values that repeat stand once in a list. With watch=true the answer is a stream of server-sent events: `map` " +
			"carries the whole map, at first and when nodes come or go; `rows` carries a map of the nodes alone that have changed, four times a second at most.",
		fails: []int{http.StatusUnprocessableEntity},
		replies: map[int]*huma.Response{http.StatusOK: jsonReply[GPUMap](s, "The map, or its events",
			s.eventStream("MapStreamEvent", streamedEvent{"map", GPUMap{}}, streamedEvent{"rows", GPUMap{}}, streamedEvent{"error", Failure{}}))},
	}, s.getMap)
}

func (s *Server) getMap(ctx context.Context, in *mapInput) (*huma.StreamResponse, error) {
	view, scope, err := s.mapView(ctx)
	if err != nil {
		return nil, err
	}
	if in.Watch {
		return s.watchMap(ctx)
	}
	rows := view.mapRows()
	kind, body, err := s.encodeAnswer(in.Accept, buildMap(rows, countFits(rows), scope.Has, view.taken.UTC()))
	if err != nil {
		return nil, err
	}
	packed := strings.Contains(in.Encodings, "gzip")
	if packed {
		if body, err = compressAnswer(body); err != nil {
			return nil, err
		}
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", kind)
		hctx.AppendHeader("Vary", "Accept-Encoding")
		if packed {
			hctx.SetHeader("Content-Encoding", "gzip")
		}
		hctx.SetStatus(http.StatusOK)
		_, _ = hctx.BodyWriter().Write(body) // the client is gone
	}}, nil
}

// mapView returns the newest view for a caller who may list nodes, and where the caller may see who holds a GPU.
func (s *Server) mapView(ctx context.Context) (*view, access.Scope, error) {
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, access.Scope{}, err
	}
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, access.Scope{}, err
	}
	scope, err := caller.FindScope(ctx, view.jobNamespaces, podResource)
	return view, scope, err
}

func compressAnswer(body []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(body); err != nil {
		return nil, fmt.Errorf("compressing an answer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compressing an answer: %w", err)
	}
	return b.Bytes(), nil
}

// watchMap sends the map and then the rows that change.
func (s *Server) watchMap(ctx context.Context) (*huma.StreamResponse, error) {
	may := func(ctx context.Context) error {
		_, err := s.fleetView(ctx)
		return err
	}
	return s.streamResponse(ctx, may, func(ctx context.Context, out *stream) error {
		defer out.keepAlive(ctx)()
		var sent []mapRow
		for {
			renewed := s.cache.nextRenewal()
			var err error
			if sent, err = s.sendMap(ctx, out, sent); err != nil {
				return err
			}
			if err := waitForRenewal(ctx, renewed); err != nil {
				return err
			}
		}
	})
}

// sendMap sends what has changed since the rows that the client knows, and returns those that it knows then.
func (s *Server) sendMap(ctx context.Context, out *stream, sent []mapRow) ([]mapRow, error) {
	view, scope, err := s.mapView(ctx)
	if err != nil {
		return sent, err
	}
	rows := view.mapRows()
	changed, ok := changedRows(sent, rows)
	switch {
	case !ok || sent == nil:
		return rows, out.sendEvent("map", "", buildMap(rows, countFits(rows), scope.Has, view.taken.UTC()))
	case len(changed) > 0:
		return rows, out.sendEvent("rows", "", buildMap(changed, countFits(rows), scope.Has, view.taken.UTC()))
	}
	return sent, nil
}

// waitForRenewal waits until there is a newer view, and for [mapInterval] at least.
func waitForRenewal(ctx context.Context, renewed <-chan struct{}) error {
	pause := time.NewTimer(mapInterval)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-renewed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

package server

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"g8s.host/gpu-scheduler/pkg/server/access"
)

type mapInput struct {
	Watch     bool   `query:"watch" doc:"Answer with events: the map as it is, and then every change"`
	Accept    string `header:"Accept" doc:"text/event-stream, to watch"`
	Node      string `query:"node" maxLength:"253" doc:"Only this node; without watch"`
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
	if in.Watch {
		return s.watchMap(ctx)
	}
	view, err := s.fleetView(ctx)
	if err != nil {
		return nil, err
	}
	scope, err := holderScope(ctx, view)
	if err != nil {
		return nil, err
	}
	rows := view.mapRows()
	if in.Node != "" {
		rows = slices.DeleteFunc(slices.Clone(rows), func(row mapRow) bool { return row.name != in.Node })
	}
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

// holderScope returns where the caller may see what holds a GPU.
func holderScope(ctx context.Context, v *view) (access.Scope, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return access.Scope{}, err
	}
	return caller.FindScope(ctx, v.jobNamespaces, podResource)
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
	if err := may(ctx); err != nil {
		return nil, err
	}
	return s.streamResponse(ctx, may, func(ctx context.Context, out *stream) error {
		defer out.keepAlive(ctx)()
		watcher := &mapWatcher{server: s, out: out, scope: access.KeptScope{TTL: s.options.ReviewTTL / 2}}
		for {
			renewed := s.cache.nextRenewal()
			if err := watcher.sendChanges(ctx); err != nil {
				return err
			}
			if err := waitForRenewal(ctx, renewed); err != nil {
				return err
			}
		}
	})
}

// mapWatcher is one client's watch of the map.
type mapWatcher struct {
	server *Server
	out    *stream
	// scope is where the caller may see holders. It is kept for some seconds: a change of one pod must not cost a review for each namespace and viewer.
	scope access.KeptScope
	// sent are the rows that the client knows, with the holders of shown; nil before the first.
	sent  []mapRow
	shown access.Scope
}

// sendChanges sends what has changed since the rows that the client knows: the whole map if nodes have come or gone, or other holders may be seen.
func (w *mapWatcher) sendChanges(ctx context.Context) error {
	view, err := w.server.cache.latestView()
	if err != nil {
		return err
	}
	scope, err := w.scope.FindScope(w.server.options.Now(), view.jobNamespaces, func() (access.Scope, error) { return holderScope(ctx, view) })
	if err != nil {
		return err
	}
	rows := view.mapRows()
	changed, ok := changedRows(w.sent, rows)
	name := "rows"
	switch {
	case w.sent == nil || !ok || !scope.CoversSame(w.shown):
		name, changed = "map", rows
	case len(changed) == 0:
		return nil
	}
	w.sent, w.shown = rows, scope
	return w.out.sendEvent(name, "", buildMap(changed, countFits(rows), scope.Has, view.taken.UTC()))
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

package api

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/server"
)

// event is one server-sent event.
type event struct {
	id, name string
	data     map[string]any
}

// events opens a stream; the channel closes with it.
func (a *api) events(ctx context.Context, r request) <-chan event {
	a.Helper()
	built, err := r.build(ctx, a.URL)
	if err != nil {
		a.Fatal(err)
	}
	built.Header.Set("Accept", "text/event-stream")
	answer, err := a.Client().Do(built) //nolint:bodyclose // closed by the goroutine that reads it
	if err != nil {
		a.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		a.Fatalf("%s: status %d", r.path, answer.StatusCode)
	}
	out := make(chan event, 100)
	go func() {
		defer close(out)
		defer func() { _ = answer.Body.Close() }()
		var e event
		for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
			field, value, _ := strings.Cut(lines.Text(), ": ")
			switch field {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = map[string]any{}
				_ = json.Unmarshal([]byte(value), &e.data)
			case "":
				if e.name != "" {
					out <- e
				}
				e = event{}
			}
		}
	}()
	return out
}

// until reads events up to one of a name and, unless it is "", of a job.
func (a *api) until(stream <-chan event, name, job string) event {
	a.Helper()
	timeout := time.After(patience)
	for {
		select {
		case e, open := <-stream:
			if !open {
				a.Fatalf("the stream ended before %s %s", name, job)
			}
			if e.name == "error" {
				a.Fatalf("the stream ended with %v\nlog: %s", e.data, a.log)
			}
			if e.name == name && (job == "" || e.data["jobId"] == job) {
				return e
			}
		case <-timeout:
			a.Fatalf("no event %s %s", name, job)
		}
	}
}

// TestWatchingGoesOnWhereItBroke misses nothing of what happened while nobody watched, and repeats nothing before it.
func TestWatchingGoesOnWhereItBroke(t *testing.T) {
	a := start(t, server.Options{})
	ctx, hangUp := context.WithCancel(t.Context())
	watch := request{path: jobs + "?watch=true&namespace=team", user: reader}
	first := a.events(ctx, watch)
	a.until(first, "reset", "")
	last := a.until(first, "synced", "")
	a.create("watched-1", training("watched-1"))
	if e := a.until(first, "added", "watched-1"); e.id == "" {
		t.Error("a change has no id")
	} else {
		last = e
	}
	hangUp()
	a.create("watched-2", training("watched-2"))
	a.want(http.StatusOK, request{method: http.MethodDelete, path: jobs + "/watched-2", user: member})

	watch.header = map[string]string{"Last-Event-ID": last.id}
	second := a.events(t.Context(), watch)
	e := a.until(second, "added", "watched-2")
	a.until(second, "deleted", "watched-2")
	if e.id == last.id {
		t.Error("the change before the break came again")
	}
	watch.header = map[string]string{"Last-Event-ID": "of-another-server-1"}
	a.until(a.events(t.Context(), watch), "reset", "")
}

// TestAWatchBeginsWhereAListWasRead has what changed after a list, and nothing of what the list has.
func TestAWatchBeginsWhereAListWasRead(t *testing.T) {
	a := start(t, server.Options{})
	a.create("listed-1", training("listed-1"))
	list := a.want(http.StatusOK, request{path: jobs + "?namespace=team&limit=1", user: reader})
	version, _ := list["resourceVersion"].(string)
	a.create("listed-2", training("listed-2"))
	changes := a.events(t.Context(), request{path: jobs + "?watch=true&namespace=team&since=" + version, user: reader})
	for {
		e := <-changes
		if e.name == "reset" || e.name == "synced" || e.name == "" {
			t.Fatalf("the watch begins with %q", e.name)
		}
		if e.name == "added" {
			a.same("the job", "listed-2", e.data["jobId"])
			break
		}
	}
	a.want(http.StatusUnprocessableEntity, request{path: jobs + "?namespace=team&since=" + version, user: reader})
	a.until(a.events(t.Context(), request{path: jobs + "?watch=true&namespace=team&since=of-another-server-1", user: reader}), "reset", "")
}

// TestAWatchShowsOnlyWhatTheCallerMaySee follows the rights of the caller, not those of the server.
func TestAWatchShowsOnlyWhatTheCallerMaySee(t *testing.T) {
	a := start(t, server.Options{})
	got := a.do(request{path: jobs + "?watch=true&namespace=team", user: nobody})
	if got.status != http.StatusForbidden {
		t.Errorf("status %d, want 403", got.status)
	}
}

// TestFollowingEndsWithAFailureForAClientThatTakesNoStream is upstream's case, answered with what to do.
func TestFollowingEndsWithAFailureForAClientThatTakesNoStream(t *testing.T) {
	a := start(t, server.Options{})
	got := a.want(http.StatusBadRequest, request{path: jobs + "/x/logs?namespace=team&follow=true", user: reader,
		header: map[string]string{"Accept": "application/json"}})
	if text, _ := got["error"].(string); !strings.Contains(text, "text/event-stream") || !strings.Contains(text, "WebSocket") {
		t.Errorf("the error does not say what to do: %s", text)
	}
}

// TestFollowingLogsTellsTheState of a job that has no pod on a node: why it waits.
func TestFollowingLogsTellsTheState(t *testing.T) {
	a := start(t, server.Options{})
	a.create("followed", training("followed"))
	stream := a.events(t.Context(), request{path: jobs + "/followed/logs?namespace=team&follow=true", user: reader})
	if e := a.until(stream, "state", "followed"); e.data["status"] != "Pending" {
		t.Errorf("the state is %v", e.data)
	}
	a.want(http.StatusOK, request{method: http.MethodDelete, path: jobs + "/followed", user: member})
	a.until(stream, "end", "")
}

package api

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"g8s.host/gpu-scheduler/pkg/server"
)

// Values that somebody means no good with: of parts of a path, which are escaped, and of a query.
var (
	hostileNames = []string{
		"%2e%2e", "a%2Fb", "..%2F..%2Fsecret", "%00", "a%0Ab", "%F0%9F%92%A5", "%FF%FE", "%25", "a=b,c!=d", "a,b", "!x",
		"x%20in%20(y)", strings.Repeat("x", 400),
	}
	hostileValues = []string{
		"", "-1", "99999999999999999999", "x y", "\x00", "💥", strings.Repeat("y", 5000), "a,b", "..", "(((((", "NaN", "1e9",
		"0001-01-01T00:00:00Z", "9999999h",
	}
	hostileBodies = []string{
		"", "null", "[]", "1", `"x"`, "{} {}", "{\"yamlContent\":\"\xff\xfe\"}", `{"yamlContent":"\u0000"}`,
		strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000),
		`{"yamlContent": {"a":1}, "dryRun":"yes", "nodes":"x", "key":1, "value":null, "pool":[], "replicas":1e99}`,
		`{"yamlContent":"` + strings.Repeat(`kind: training\n---\n`, 20000) + `"}`,
		`{"yamlContent":"` + strings.Repeat("[", 100000) + `"}`,
		`{"yamlContent":"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c]\nkind: *d"}`,
	}
	hostileTypes = []string{"text/plain", "application/xml", "multipart/form-data; boundary=x", "application/yaml", ";;;"}
)

// TestBadInputIsTheSendersFailure, on every route, in every part of a request: it is answered in the form of failures,
// never with a failure of the server.
func TestBadInputIsTheSendersFailure(t *testing.T) {
	a := start(t, server.Options{})
	for _, o := range a.document().operations {
		if o.public {
			continue
		}
		t.Run(o.id, func(t *testing.T) {
			s := samples[o.id]
			ask := func(r request) {
				got := a.do(r)
				if got.status >= 500 || got.status >= 400 && !strings.Contains(string(got.body), `"requestId"`) {
					t.Errorf("%s %.200s with %.100v: status %d: %.300s", r.method, r.path, r.body, got.status, got.body)
				}
			}
			for _, name := range hostileNames {
				if path := s.filled(o.path, name); path != o.path {
					ask(request{method: o.method, path: path + s.query, user: admin, body: s.body})
				}
			}
			for _, parameter := range o.spec.Parameters {
				for _, value := range hostileValues {
					if name := parameter.Value.Name; parameter.Value.In == "query" && name != "watch" && name != "follow" {
						ask(request{method: o.method, path: s.asked(o.path, name, value), user: admin, body: s.body})
					}
				}
			}
			if o.spec.RequestBody == nil {
				return
			}
			for _, body := range hostileBodies {
				ask(request{method: o.method, path: s.url(o.path), user: admin, body: body})
			}
			for _, kind := range hostileTypes {
				ask(request{method: o.method, path: s.url(o.path), user: admin, body: `{"yamlContent": 1`, header: map[string]string{"Content-Type": kind}})
			}
		})
	}
	if log := a.log.String(); strings.Contains(log, `"Panic"`) || strings.Contains(log, `"ERROR"`) {
		t.Errorf("the log tells of failures of the server: %.2000s", log[max(0, strings.Index(log, `"ERROR"`)-100):])
	}
}

// filled is a path with a value for each of its parameters.
func (s *sample) filled(path, value string) string {
	for {
		before, rest, found := strings.Cut(path, "{")
		if !found {
			return path
		}
		_, after, _ := strings.Cut(rest, "}")
		path = before + value + after
	}
}

// asked is the address of a sample with another value of one parameter of its query.
func (s *sample) asked(path, name, value string) string {
	query, _ := url.ParseQuery(strings.TrimPrefix(s.query, "?"))
	query.Set(name, value)
	bare := *s
	bare.query = "?" + query.Encode()
	return bare.url(path)
}

// TestWhatIsNotUnderstoodIsRefused and not left out, where leaving it out would do more than is meant.
func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	a := start(t, server.Options{})
	a.create("kept", training("kept"))
	tests := map[string]struct {
		request request
		want    int
		says    string
	}{
		"a misspelt dry run":           {request{method: http.MethodPost, path: jobs + "/kept/cancel?namespace=team&dryrun=true"}, 422, "it takes namespace, dryRun"},
		"a misspelt namespace":         {request{path: jobs + "?namspace=team"}, 422, "namespace"},
		"a query in another form":      {request{path: jobs + "?namespace=team;kind=training"}, 422, "semicolon"},
		"a query that is no text":      {request{path: jobs + "?namespace=%zz"}, 422, "%zz"},
		"acting as somebody else":      {request{path: jobs, header: map[string]string{"Impersonate-User": "x"}}, 400, "Impersonate-User"},
		"a method in a header":         {request{path: jobs + "/kept?namespace=team", header: map[string]string{"X-HTTP-Method-Override": "DELETE"}}, 200, "kept"},
		"a selector instead of a name": {request{path: jobs + "/kept,app!=x/explain?namespace=team"}, 422, "pattern"},
		"a method that no route has":   {request{method: "BREW", path: jobs}, 405, "GET, HEAD, POST, PUT"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.request.user = admin
			got := a.do(tc.request)
			if got.status != tc.want || !strings.Contains(string(got.body), tc.says) {
				t.Errorf("status %d, want %d and %q: %.300s", got.status, tc.want, tc.says, got.body)
			}
		})
	}
	a.same("the job", "Pending", a.item(reader, "kept")["status"])
}

// TestStreamsGoOnFromNowhere when the client names an event that never was.
func TestStreamsGoOnFromNowhere(t *testing.T) {
	a := start(t, server.Options{})
	a.create("nowhere", training("nowhere"))
	for name, id := range map[string]string{
		"no id of ours": "💥", "too long": strings.Repeat("z", 20000), "one of the last day there can be": mark(0x7f), "one before time": mark(0x80),
	} {
		t.Run(name, func(t *testing.T) {
			header := map[string]string{"Last-Event-ID": id}
			a.until(a.events(t.Context(), request{path: jobs + "?watch=true&namespace=team", user: reader, header: header}), "synced", "")
			a.until(a.events(t.Context(), request{path: jobs + "/nowhere/logs?follow=true&namespace=team", user: reader, header: header}), "state", "nowhere")
		})
	}
}

// mark is the id of a line of output at a time whose first byte is this.
func mark(first byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{1, 2, 3, 4, first}, 0, 0, 0, 0, 0, 0, 0, 0, 1))
}

// TestAClientThatLeavesIsNoFailure of the server, nor one whose messages are too large.
func TestAClientThatLeavesIsNoFailure(t *testing.T) {
	a := start(t, server.Options{})
	a.create("left", training("left"))
	for range 20 {
		ctx, hangUp := context.WithTimeout(t.Context(), time.Millisecond)
		if built, err := (request{path: jobs + "/left?namespace=team", user: reader}).build(ctx, a.URL); err == nil {
			if answer, err := a.Client().Do(built); err == nil {
				_ = answer.Body.Close()
			}
		}
		hangUp()
	}
	a.dial(t.Context(), jobs+"/left/logs/ws?namespace=team", reader).hangUp()
	loud := a.dial(t.Context(), jobs+"/left/logs/ws?namespace=team", reader)
	_ = loud.connection.WriteMessage(websocket.TextMessage, make([]byte, 1<<20)) // it may be hung up on before the end
	_ = loud.connection.SetReadDeadline(time.Now().Add(patience))
	for {
		if _, _, err := loud.connection.ReadMessage(); err != nil {
			if strings.Contains(err.Error(), "timeout") {
				t.Error("a client that sends a megabyte is not hung up on")
			}
			break
		}
	}
	a.eventually("all streams to end", func() bool {
		metrics := string(a.do(request{path: "/metrics", user: admin}).body)
		return strings.Contains(metrics, "gpuctl_server_requests_in_flight 1\n")
	})
	if strings.Contains(a.log.String(), `"ERROR"`) {
		t.Errorf("the log tells of failures: %s", a.log)
	}
}

// TestASlowRequestIsCutOff: a connection on which no request comes about is closed.
func TestASlowRequestIsCutOff(t *testing.T) {
	s, err := server.New(own, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener, nil) }()
	connection, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = connection.Close() }()
	go func() {
		for i := 0; ; i++ { // a header every now and then, forever
			if _, err := fmt.Fprintf(connection, "%sX-Slow-%d: x\r\n", map[bool]string{true: "GET / HTTP/1.1\r\nHost: x\r\n"}[i == 0], i); err != nil {
				return
			}
			time.Sleep(200 * time.Millisecond)
		}
	}()
	_ = connection.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(io.Discard, connection); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Errorf("a request that does not end is still waited for after %s", patience)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

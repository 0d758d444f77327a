package api

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/server"
)

var logOptions = server.Options{Origins: []string{"https://console.example.com"}}

// socket is a client's end of a WebSocket.
type socket struct {
	*api
	connection *websocket.Conn
}

// connect opens a WebSocket, or returns none and the answer that refuses it.
func (a *api) connect(ctx context.Context, path string, header http.Header) (*socket, response) {
	a.Helper()
	dialer := &websocket.Dialer{HandshakeTimeout: patience}
	if transport, ok := a.Client().Transport.(*http.Transport); ok && transport.TLSClientConfig != nil {
		dialer.TLSClientConfig = &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs}
	}
	connection, answer, err := dialer.DialContext(ctx, "ws"+strings.TrimPrefix(a.URL, "http")+path, header)
	if answer == nil {
		a.Fatal(err)
	}
	got := response{status: answer.StatusCode, header: answer.Header}
	if err != nil {
		got.body, _ = io.ReadAll(answer.Body) // the library has read it
		_ = answer.Body.Close()
		return nil, got
	}
	a.Cleanup(func() { _ = connection.Close() })
	return &socket{api: a, connection: connection}, got
}

// dial opens a WebSocket as a program does, with a header.
func (a *api) dial(ctx context.Context, path, user string) *socket {
	a.Helper()
	opened, answer := a.connect(ctx, path, http.Header{"Authorization": {"Bearer " + users[user]}})
	if opened == nil {
		a.Fatalf("%s: status %d: %s", path, answer.status, answer.body)
	}
	return opened
}

// until reads messages up to one of a type.
func (s *socket) until(kind string) map[string]any {
	s.Helper()
	for {
		var message map[string]any
		_ = s.connection.SetReadDeadline(time.Now().Add(patience))
		if err := s.connection.ReadJSON(&message); err != nil {
			s.Fatalf("no message %s: %v\nlog: %s", kind, err, s.log)
		}
		if message["type"] == kind {
			return message
		}
	}
}

// closes demands that the server closes with a code and a reason.
func (s *socket) closes(code int, reason string) {
	s.Helper()
	for {
		_ = s.connection.SetReadDeadline(time.Now().Add(patience))
		_, _, err := s.connection.ReadMessage()
		var closed *websocket.CloseError
		if errors.As(err, &closed) {
			if closed.Code != code || !strings.Contains(closed.Text, reason) {
				s.Errorf("closed with %d %q, want %d and %q", closed.Code, closed.Text, code, reason)
			}
			return
		}
		if err != nil {
			s.Fatalf("ended with %v, want to be closed with %d", err, code)
		}
	}
}

func (s *socket) hangUp() { _ = s.connection.Close() }

// TestWhoMayOpenAWebSocket: programs with a header, browsers with a subprotocol from the listed origins, nobody else.
func TestWhoMayOpenAWebSocket(t *testing.T) {
	a := start(t, logOptions)
	a.create("socket", training("socket"))
	header := func(pairs ...string) http.Header {
		out := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			out.Add(pairs[i], pairs[i+1])
		}
		return out
	}
	bearer := func(user string) string { return "Bearer " + users[user] }
	protocol := "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(users[reader]))
	const path, named = jobs + "/socket/logs/ws?namespace=team", "Sec-WebSocket-Protocol"
	tests := map[string]struct {
		path     string
		header   http.Header
		want     int
		says     string
		protocol string
	}{
		"a program with a header":                        {path: path, header: header("Authorization", bearer(reader)), want: 101},
		"a browser of a listed origin":                   {path: path, header: header(named, "logs.g8s.host, "+protocol, "Origin", "https://console.example.com"), want: 101, protocol: "logs.g8s.host"},
		"a page of this server":                          {path: path, header: header(named, "logs.g8s.host, "+protocol, "Origin", a.URL), want: 101, protocol: "logs.g8s.host"},
		"a page of another origin":                       {path: path, header: header(named, "logs.g8s.host, "+protocol, "Origin", "https://evil.example.com"), want: 403, says: "--cors-origin"},
		"a sandboxed page, whose origin is none":         {path: path, header: header(named, "logs.g8s.host, "+protocol, "Origin", "null"), want: 403, says: "--cors-origin"},
		"nobody":                                         {path: path, want: 401},
		"a token that is none":                           {path: path, header: header("Authorization", "Bearer x"), want: 401},
		"a token as the only subprotocol":                {path: path, header: header(named, protocol), want: 401, says: "logs.g8s.host"},
		"a token that is not base64":                     {path: path, header: header(named, "logs.g8s.host, base64url.bearer.authorization.k8s.io.!!"), want: 401},
		"two tokens":                                     {path: path, header: header(named, "logs.g8s.host, "+protocol+", "+protocol), want: 401},
		"a token in the query, where logs would keep it": {path: path + "&access_token=" + users[reader], want: 401},
		"a caller without rights":                        {path: path, header: header("Authorization", bearer(nobody)), want: 403},
		"a job that is not there":                        {path: jobs + "/none/logs/ws?namespace=team", header: header("Authorization", bearer(reader)), want: 404},
		"a regular expression that is none":              {path: path + "&grep=(", header: header("Authorization", bearer(reader)), want: 422},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			opened, answer := a.connect(t.Context(), tc.path, tc.header)
			if answer.status != tc.want {
				t.Errorf("status %d, want %d", answer.status, tc.want)
			}
			if got := answer.header.Get(named); got != tc.protocol {
				t.Errorf("the subprotocol is %q, want %q", got, tc.protocol)
			}
			if opened != nil {
				a.same("the state of the job", "socket", dataOf(opened.until("state"))["jobId"])
				return
			}
			if body := string(answer.body); !strings.Contains(body, tc.says) || !strings.Contains(body, `"requestId"`) {
				t.Errorf("the answer is not a failure that says %q: %s", tc.says, body)
			}
		})
	}
	plain := a.want(http.StatusUpgradeRequired, request{path: path, user: reader})
	a.same("the code of a request that is no WebSocket", "UpgradeRequired", plain["code"])
}

func dataOf(message map[string]any) map[string]any {
	out, _ := message["data"].(map[string]any)
	return out
}

// TestAStreamEndsWithItsToken, on a WebSocket as with events: what was opened with a token does not outlive it.
func TestAStreamEndsWithItsToken(t *testing.T) {
	a := start(t, server.Options{ReviewTTL: 200 * time.Millisecond})
	a.create("leaving", training("leaving"))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "leaver"}}
	if _, err := client.CoreV1().ServiceAccounts("users").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	granted, err := client.RbacV1().RoleBindings(team).Get(t.Context(), bindingOf(t, reader), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	granted.ObjectMeta = metav1.ObjectMeta{GenerateName: "leaver"}
	granted.Subjects = subject("leaver")
	if _, err := client.RbacV1().RoleBindings(team).Create(t.Context(), granted, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := client.CoreV1().ServiceAccounts("users").CreateToken(t.Context(), "leaver", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	users["leaver"] = token.Status.Token
	defer delete(users, "leaver")
	a.eventually("the right of the leaver", func() bool {
		return a.do(request{path: jobs + "/leaving?namespace=team", user: "leaver"}).status == http.StatusOK
	})
	followed := a.dial(t.Context(), jobs+"/leaving/logs/ws?namespace=team", "leaver")
	followed.until("state")
	events := a.events(t.Context(), request{path: jobs + "?watch=true&namespace=team", user: "leaver"})
	a.until(events, "synced", "")
	if err := client.CoreV1().ServiceAccounts("users").Delete(t.Context(), "leaver", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	followed.closes(websocket.ClosePolicyViolation, "token")
	for e := range events {
		if e.name == "error" && e.data["code"] == "Unauthorized" {
			return
		}
	}
	t.Error("the events ended without saying why")
}

// bindingOf is the name of the RoleBinding of a caller in their team.
func bindingOf(t *testing.T, user string) string {
	t.Helper()
	bindings, err := client.RbacV1().RoleBindings(team).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range bindings.Items {
		if binding.GenerateName == user {
			return binding.Name
		}
	}
	t.Fatalf("%s has no rights", user)
	return ""
}

// TestAServerThatStopsSaysSo to its WebSockets, which net/http does not know of, before it ends. They come over TLS, where
// HTTP/2 is spoken too, which has none.
func TestAServerThatStopsSaysSo(t *testing.T) {
	s, err := server.New(own, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 2)
	go func() { ended <- s.RunCache(ctx) }()
	certified := httptest.NewUnstartedServer(http.NotFoundHandler())
	certified.EnableHTTP2 = true
	certified.StartTLS()
	defer certified.Close()
	go func() { ended <- s.Serve(ctx, listener, certified.TLS.Clone()) }()
	start(t, server.Options{}).create("stopping", training("stopping"))
	certified.URL = "https://" + listener.Addr().String()
	a := &api{T: t, Server: certified, log: &lockedBuffer{}}
	a.eventually("the server to be ready", func() bool { return a.do(request{path: "/readyz"}).status == http.StatusOK })
	a.want(http.StatusUpgradeRequired, request{path: jobs + "/stopping/logs/ws?namespace=team", user: reader})
	followed := a.dial(t.Context(), jobs+"/stopping/logs/ws?namespace=team", reader)
	followed.until("state")
	stop()
	followed.closes(websocket.CloseGoingAway, "stopping")
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// TestACallerHasSoManyStreams and no more, so that one cannot take all connections to the API server.
func TestACallerHasSoManyStreams(t *testing.T) {
	a := start(t, server.Options{Streams: 2})
	a.create("streams", training("streams"))
	watch := request{path: jobs + "?watch=true&namespace=team", user: reader}
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	a.until(a.events(ctx, watch), "synced", "")
	a.dial(t.Context(), jobs+"/streams/logs/ws?namespace=team", reader).until("state")
	refused := a.want(http.StatusTooManyRequests, watch)
	a.same("the code", "TooManyRequests", refused["code"])
	_, answer := a.connect(t.Context(), jobs+"/streams/logs/ws?namespace=team", http.Header{"Authorization": {"Bearer " + users[reader]}})
	a.same("the status of a WebSocket more", http.StatusTooManyRequests, answer.status)
	a.until(a.events(t.Context(), request{path: watch.path, user: member}), "synced", "")
	hangUp()
	a.eventually("the place of a stream that ended", func() bool {
		again, _ := a.connect(t.Context(), jobs+"/streams/logs/ws?namespace=team", http.Header{"Authorization": {"Bearer " + users[reader]}})
		return again != nil
	})
}

package notify

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// receiver is one that misbehaves, and a Poster that trusts it and calls this machine.
func receiver(t *testing.T, private []netip.Prefix, answer http.HandlerFunc) (*Notifier, string) {
	t.Helper()
	server := httptest.NewUnstartedServer(answer)
	server.Config.ErrorLog = nil
	server.StartTLS()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	trust := x509.NewCertPool()
	trust.AddCert(server.Certificate())
	poster := newNotifier(private, &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12})
	return poster, server.URL + "/services/SECRET"
}

func TestReceivers(t *testing.T) {
	tests := map[string]struct {
		answer  http.HandlerFunc
		private []netip.Prefix
		want    Outcome
	}{
		"one that takes it":             {answer: func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }, private: loopback},
		"one that is ill":               {answer: status(http.StatusBadGateway), private: loopback, want: Outcome{Why: "it answered 502", Again: true}},
		"one that has had enough":       {answer: status(http.StatusTooManyRequests), private: loopback, want: Outcome{Why: "it answered 429", Again: true}},
		"one that is gone":              {answer: status(http.StatusNotFound), private: loopback, want: Outcome{Why: "it answered 404"}},
		"one that sends on, and inward": {answer: redirect, private: loopback, want: Outcome{Why: "it answered 302, to go elsewhere, which is not done"}},
		"one that closes":               {answer: hangUp, private: loopback, want: Outcome{Why: "the connection broke", Again: true}},
		"one that does not stop": {answer: func(w http.ResponseWriter, r *http.Request) {
			for chunk := bytes.Repeat([]byte("x"), 1<<20); r.Context().Err() == nil; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, private: loopback},
		"one with headers without end": {answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 10*mostHeaders))
		}, private: loopback, want: Outcome{Why: "the connection broke", Again: true}},
		"one at a private address": {answer: status(http.StatusOK),
			want: Outcome{Why: "its address is private, which --notify-private-addresses of gpu-controller does not allow"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			poster, url := receiver(t, tc.private, tc.answer)
			if got := poster.Post(t.Context(), url, []byte(`{"text":"x"}`)); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func redirect(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/inside" {
		w.WriteHeader(http.StatusOK)
		return
	}
	http.Redirect(w, r, "/inside", http.StatusFound)
}

func hangUp(w http.ResponseWriter, _ *http.Request) {
	connection, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = connection.Close()
	}
}

// TestASlowReceiver is given up, and the address is not in the words for it, nor for one that is not there.
func TestASlowReceiver(t *testing.T) {
	poster, url := receiver(t, loopback, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	poster.client.Timeout = 50 * time.Millisecond
	for want, address := range map[string]string{
		"it did not answer in time":    url,
		"its name was not found":       "https://SECRET.invalid/",
		"it refused the connection":    "https://" + closedPort(t) + "/SECRET",
		"its URL cannot be read":       "https://SECRET\x7f/",
		"its certificate is not valid": strings.Replace(url, "127.0.0.1", "localhost", 1),
	} {
		got := poster.Post(t.Context(), address, nil)
		if want == "its name was not found" && got.Why == "it did not answer in time" {
			continue // whom this machine asks for names takes its time
		}
		if got.Why != want || strings.Contains(got.Why, "SECRET") {
			t.Errorf("got %q, want %q", got.Why, want)
		}
	}
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nobody connected
	return listener.Addr().String()
}

func TestAddressesThatAreCalled(t *testing.T) {
	for address, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1": true, "10.1.2.3": false, "172.16.0.1": false, "192.168.1.1": false, "127.0.0.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false, "255.255.255.255": false, "224.0.0.1": false, "::1": false, "::": false,
		"fe80::1": false, "fe80::1%eth0": false, "fd00::1": false, "::ffff:10.0.0.1": false, "::ffff:169.254.169.254": false,
		"64:ff9b::a00:1": false, "2002:a00:1::": false, "10.9.0.7": true,
	} {
		allowed := []netip.Prefix{netip.MustParsePrefix("10.9.0.0/24")}
		if got := mayCall(netip.MustParseAddr(address), allowed); got != want {
			t.Errorf("%s is called: %v, want %v", address, got, want)
		}
	}
}

// TestWhatALetterSays means nothing to the receiver but text.
func TestWhatALetterSays(t *testing.T) {
	l := &Notification{Text: "Job a/b failed (<!channel> <https://evil|click> & @here\n\u202e\x1b[2J) " + strings.Repeat("x", 1000)}
	body, err := l.encodeBody()
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]string
	if err := json.Unmarshal(body, &said); err != nil || len(said) != 1 {
		t.Fatalf("%s: %v, want JSON with one key", body, err)
	}
	text := said["text"]
	if !strings.HasPrefix(text, "Job a/b failed (&lt;!channel&gt; &lt;https://evil|click&gt; &amp; @\u200bhere   [2J) xxx") {
		t.Errorf("it says %q", text)
	}
	if n := len([]rune(text)); n > longestDetail+50 {
		t.Errorf("it has %d letters, want about %d", n, longestDetail)
	}
}

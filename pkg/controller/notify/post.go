package notify

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	// postTimeout bounds a whole call, from the name lookup to the last byte read of the answer.
	postTimeout = 10 * time.Second
	// mostRead bounds what is read of an answer, which is discarded.
	mostRead = 4 << 10
	// mostHeaders bounds the headers of an answer.
	mostHeaders = 16 << 10
)

// Outcome is the result of a call.
type Outcome struct {
	// Why is the reason of a failure, without the address; "" on success.
	Why string
	// Again says that a retry may succeed.
	Again bool
	// Unset says that the channel exists without a usable URL, which administrators must fix.
	Unset bool
}

// Notifier calls receivers.
type Notifier struct{ client *http.Client }

// NewNotifier returns a Poster that calls public addresses, and private ones only within the prefixes. It follows no redirects and uses no proxy,
// because a proxy would call forbidden addresses.
func NewNotifier(private []netip.Prefix) *Notifier {
	return newNotifier(private, nil)
}

func newNotifier(private []netip.Prefix, trust *tls.Config) *Notifier {
	dialer := &net.Dialer{Timeout: postTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !mayCall(at.Addr(), private) {
			return errPrivate
		}
		return nil
	}}
	return &Notifier{client: &http.Client{
		Timeout:       postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: trust, TLSHandshakeTimeout: postTimeout,
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: mostHeaders,
		},
	}}
}

// errPrivate means that a name resolves to a forbidden address.
var errPrivate = errors.New("its address is private")

// reservedPrefixes are special-purpose addresses that [netip.Addr] does not classify as private.
var reservedPrefixes = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// mayCall checks the address that is actually connected to, after the name lookup: names may resolve to anything.
func mayCall(address netip.Addr, private []netip.Prefix) bool {
	address = address.Unmap().WithZone("")
	within := func(prefixes []netip.Prefix) bool {
		for _, prefix := range prefixes {
			if prefix.Contains(address) {
				return true
			}
		}
		return false
	}
	if within(private) {
		return true
	}
	return address.IsGlobalUnicast() && !address.IsPrivate() && !within(reservedPrefixes)
}

// Post calls a receiver once.
func (p *Notifier) Post(ctx context.Context, url string, body []byte) Outcome {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return Outcome{Why: "its URL cannot be read"}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "gpu-controller")
	answer, err := p.client.Do(request)
	if err != nil {
		return outcomeOf(err)
	}
	defer answer.Body.Close() //nolint:errcheck // its result does not matter
	_, _ = io.CopyN(io.Discard, answer.Body, mostRead)
	why := fmt.Sprintf("it answered %d", answer.StatusCode)
	switch code := answer.StatusCode; {
	case code >= 200 && code < 300:
		return Outcome{}
	case code >= 300 && code < 400:
		return Outcome{Why: why + ", to go elsewhere, which is not done"}
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code >= 500:
		return Outcome{Why: why, Again: true}
	}
	return Outcome{Why: why}
}

// outcomeOf describes an error without the address, which the libraries' messages contain.
func outcomeOf(err error) Outcome {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.Is(err, errPrivate):
		return Outcome{Why: "its address is private, which --notify-private-addresses of gpu-controller does not allow"}
	case errors.As(err, &certificate):
		return Outcome{Why: "its certificate is not valid", Again: true}
	case errors.As(err, &name):
		return Outcome{Why: "its name was not found", Again: true}
	case errors.As(err, &timeout) && timeout.Timeout():
		return Outcome{Why: "it did not answer in time", Again: true}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Outcome{Why: "it refused the connection", Again: true}
	}
	return Outcome{Why: "the connection broke", Again: true}
}

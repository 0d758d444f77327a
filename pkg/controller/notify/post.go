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
	// postTimeout bounds all of a call, from the look-up of the name to the last byte that is read of the answer.
	postTimeout = 10 * time.Second
	// mostRead is what is read of an answer, which nobody looks at.
	mostRead = 4 << 10
	// mostHeaders is the size of headers beyond which a receiver is given up.
	mostHeaders = 16 << 10
)

// Outcome is what became of a call.
type Outcome struct {
	// Why is why it did not succeed, in words that never have the address in them; "" if it did.
	Why string
	// Again says that another try may succeed.
	Again bool
	// Unset says that there is the channel, and no URL of it to call, which administrators have to mend.
	Unset bool
}

// Poster calls receivers.
type Poster struct{ client *http.Client }

// NewPoster returns a Poster that calls public addresses, and private ones within the prefixes alone. It follows no redirects, and
// goes through no proxy, which would call what it does not.
func NewPoster(private []netip.Prefix) *Poster {
	return newPoster(private, nil)
}

func newPoster(private []netip.Prefix, trust *tls.Config) *Poster {
	dialer := &net.Dialer{Timeout: postTimeout, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !mayCall(at.Addr(), private) {
			return errPrivate
		}
		return nil
	}}
	return &Poster{client: &http.Client{
		Timeout:       postTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSClientConfig: trust, TLSHandshakeTimeout: postTimeout,
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: mostHeaders,
		},
	}}
}

// errPrivate says that a name leads to an address that is not called.
var errPrivate = errors.New("its address is private")

// shared are addresses that belong to nobody, and that [netip.Addr] does not call private.
var shared = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("64:ff9b::/96"),
	netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// mayCall decides about the address that is really connected to, after its name was looked up: names may lead anywhere.
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
	return address.IsGlobalUnicast() && !address.IsPrivate() && !within(shared)
}

// Post calls a receiver once.
func (p *Poster) Post(ctx context.Context, url string, body []byte) Outcome {
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
	defer answer.Body.Close() //nolint:errcheck // nobody looks at what it says
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

// outcomeOf puts an error into words without the address, which those of the libraries have.
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

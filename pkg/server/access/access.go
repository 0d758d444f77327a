// Package access decides who calls the REST API and what they may read, by asking the cluster: a bearer token is
// reviewed by the API server, rights are reviewed by it, and all that is done for a caller is done as the caller, by
// impersonation. So the rights and quotas that count are the caller's, and the server adds none of its own.
//
// Answers of reviews are kept for some seconds, so that a list that is served from memory costs no request.
package access

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// DefaultTTL is how long the answers of reviews are kept: as long as a revoked right may still be seen to work.
const DefaultTTL = 5 * time.Second

// ErrUnauthenticated says that a request carries no token that the cluster accepts.
var ErrUnauthenticated = errors.New("no valid bearer token")

const (
	reviewTimeout = 10 * time.Second
	// maxCallers bounds the clients that are kept, each some kilobytes.
	maxCallers = 4096
	// idleCaller is how long the clients of a caller who is silent are kept.
	idleCaller = 10 * time.Minute
)

// reviewBackoff retries reviews that fail for lack of a connection.
var reviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// Gate authenticates callers and gives them clients that act as they.
type Gate struct {
	authn  authenticator.Request
	authz  authorizer.Authorizer
	config *rest.Config
	own    kubernetes.Interface
	// callers holds a *Caller by its identity, and acting what came of asking whether to act for it, an error or nil.
	callers, acting *cache.LRUExpireCache
	ttl             time.Duration
	// streams carries what is read without end, of all callers.
	streams http.RoundTripper
	// audiences are those a token must be for; none means the API server's own.
	audiences authenticator.Audiences
}

// Options say how a Gate decides.
type Options struct {
	// TTL is how long answers of reviews are kept; 0 means [DefaultTTL].
	TTL time.Duration
	// Audiences are those a token must be for; none means the API server's own.
	Audiences []string
}

// New returns a Gate that reviews and impersonates with the identity of config.
func New(config *rest.Config, o Options) (*Gate, error) {
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating the client of reviews: %w", err)
	}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:  client.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout,
		WebhookRetryBackoff:      &reviewBackoff,
		CacheTTL:                 o.TTL,
		APIAudiences:             o.Audiences,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up authentication: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             o.TTL,
		DenyCacheTTL:              o.TTL,
		WebhookRetryBackoff:       &reviewBackoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up authorization: %w", err)
	}
	streams, err := streamTransport(config)
	if err != nil {
		return nil, err
	}
	return &Gate{
		streams: streams,
		authn:   authn, authz: authz, config: config, own: client, audiences: o.Audiences, ttl: o.TTL,
		callers: cache.NewLRUExpireCache(maxCallers), acting: cache.NewLRUExpireCache(maxCallers),
	}, nil
}

// Identify returns who sends a request. It returns [ErrUnauthenticated] for a request without a valid token, an
// [ActingError] for one of somebody for whom the server may not act, and another error when the cluster could not be asked.
func (g *Gate) Identify(r *http.Request) (*Caller, error) {
	who, err := g.authenticate(r)
	if err != nil {
		return nil, err
	}
	return g.caller(r.Context(), who)
}

// Recognize returns who sends a request, without anything to act for them with: for what is the server's own, such as its
// metrics. It returns what [Gate.Identify] does, but for an [ActingError].
func (g *Gate) Recognize(r *http.Request) (*Caller, error) {
	who, err := g.authenticate(r)
	if err != nil {
		return nil, err
	}
	return &Caller{User: who, authz: g.authz}, nil
}

func (g *Gate) authenticate(r *http.Request) (user.Info, error) {
	if len(g.audiences) > 0 {
		r = r.WithContext(authenticator.WithAudiences(r.Context(), g.audiences))
	}
	response, ok, err := g.authn.AuthenticateRequest(r)
	switch {
	case ok:
		return response.User, nil
	case err != nil && isUnreviewed(err):
		return nil, fmt.Errorf("reviewing the token: %w", err)
	}
	return nil, ErrUnauthenticated
}

// Reviewer returns what reviews the token of a request again later, and returns [ErrUnauthenticated] once the token is
// not valid any more, and an [ActingError] once the server may not act for its owner any more. It is made before [Gate.Identify], which takes the token off the request.
func (g *Gate) Reviewer(r *http.Request) func(context.Context) error {
	tokens := map[string][]string{}
	for _, name := range []string{"Authorization", protocolHeader} {
		tokens[name] = slices.Clone(r.Header.Values(name))
	}
	return func(ctx context.Context) error {
		again := r.Clone(ctx)
		maps.Copy(again.Header, tokens)
		_, err := g.Identify(again)
		return err
	}
}

// protocolHeader carries the token of a browser's WebSocket, which can set no other header: as a protocol that is
// offered, base64url.bearer.authorization.k8s.io.TOKEN, as the API server of Kubernetes takes it.
const protocolHeader = "Sec-Websocket-Protocol"

// isUnreviewed tells a review that did not take place from a token that was refused: for being expired, or malformed,
// each with a text of its own and no type.
func isUnreviewed(err error) bool {
	var several utilerrors.Aggregate
	if errors.As(err, &several) {
		return slices.ContainsFunc(several.Errors(), isUnreviewed)
	}
	var status apierrors.APIStatus
	var network net.Error
	return errors.As(err, &status) || errors.As(err, &network) || wait.Interrupted(err) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// caller returns the clients of a user, made on first use, as long as the server may act for them.
func (g *Gate) caller(ctx context.Context, who user.Info) (*Caller, error) {
	key := identity(who)
	acting, err := g.mayAct(ctx, key, who)
	if err != nil {
		return nil, err
	}
	if known, ok := g.callers.Get(key); ok {
		if c, ok := known.(*Caller); ok {
			return c, nil
		}
	}
	c, err := g.newCaller(acting, who)
	if err != nil {
		return nil, err
	}
	g.callers.Add(key, c, idleCaller)
	return c, nil
}

// mayAct returns how to act as a user, or an [ActingError]. What the cluster said of it is kept as long as its other reviews.
func (g *Gate) mayAct(ctx context.Context, key string, who user.Info) (rest.ImpersonationConfig, error) {
	acting, needed, err := actAs(who)
	if err != nil {
		return acting, err
	}
	if kept, ok := g.acting.Get(key); ok {
		err, _ = kept.(error)
		return acting, err
	}
	err = mayAct(ctx, g.own, needed)
	if err == nil || errors.As(err, new(*ActingError)) {
		g.acting.Add(key, err, g.ttl)
	}
	return acting, err
}

func (g *Gate) newCaller(acting rest.ImpersonationConfig, who user.Info) (*Caller, error) {
	config := rest.CopyConfig(g.config)
	config.Impersonate = acting
	binary := rest.CopyConfig(config)
	binary.ContentType = runtime.ContentTypeProtobuf
	binary.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(binary)
	if err != nil {
		return nil, fmt.Errorf("creating a client that acts as %s: %w", who.GetName(), err)
	}
	streams, err := g.streamsOf(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client that reads streams as %s: %w", who.GetName(), err)
	}
	return &Caller{User: who, Config: config, Kubernetes: client, Streams: streams, authz: g.authz}, nil
}

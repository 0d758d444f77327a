// Package access authenticates the callers of the REST API and decides what they may read. The API server reviews their bearer tokens and rights, and
// all work for a caller is done as the caller, by impersonation. So the caller's rights and quotas apply, and the server adds none of its own.
//
// Reviews are cached for some seconds, so that a list from the cache costs no request.
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

// DefaultTTL is how long reviews are cached, and thus how long a revoked right may still work.
const DefaultTTL = 5 * time.Second

// ErrUnauthenticated means that a request has no token that the cluster accepts.
var ErrUnauthenticated = errors.New("no valid bearer token")

const (
	reviewTimeout = 10 * time.Second
	// maxCallers bounds the cached clients, each of some kilobytes.
	maxCallers = 4096
	// idleCaller is how long the clients of an idle caller are cached.
	idleCaller = 10 * time.Minute
)

// reviewBackoff retries reviews that fail for lack of a connection.
var reviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// Gate authenticates callers and gives them clients that act as them.
type Gate struct {
	authn  authenticator.Request
	authz  authorizer.Authorizer
	config *rest.Config
	own    kubernetes.Interface
	// callers caches a *Caller by identity. acting caches whether the server may act for an identity: an error or nil.
	callers, acting *cache.LRUExpireCache
	ttl             time.Duration
	// streams is the transport of endless reads of all callers.
	streams http.RoundTripper
	// audiences are those a token must be for; none means the API server's own.
	audiences authenticator.Audiences
}

// Options configure a Gate.
type Options struct {
	// TTL is how long reviews are cached; 0 means [DefaultTTL].
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

// Identify returns the caller of a request. It returns [ErrUnauthenticated] without a valid token, an [ActingError] if the server may not act for the
// caller, and another error if the cluster could not be reached.
func (g *Gate) Identify(r *http.Request) (*Caller, error) {
	who, err := g.authenticateRequest(r)
	if err != nil {
		return nil, err
	}
	return g.callerFor(r.Context(), who)
}

// IdentifyUser returns the caller of a request without clients to act as it, for the server's own resources such as its metrics. It returns the errors
// of [Gate.Identify] except an [ActingError].
func (g *Gate) IdentifyUser(r *http.Request) (*Caller, error) {
	who, err := g.authenticateRequest(r)
	if err != nil {
		return nil, err
	}
	return &Caller{User: who, authz: g.authz}, nil
}

func (g *Gate) authenticateRequest(r *http.Request) (user.Info, error) {
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

// TokenReviewer returns a function that reviews the token of a request again later. It returns [ErrUnauthenticated] once the token is no longer valid, and
// an [ActingError] once the server may no longer act for its owner. Call it before [Gate.Identify], which removes the token from the request.
func (g *Gate) TokenReviewer(r *http.Request) func(context.Context) error {
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

// protocolHeader carries the token of a browser's WebSocket, which cannot set other headers. It is an offered protocol,
// base64url.bearer.authorization.k8s.io.TOKEN, as the API server of Kubernetes accepts it.
const protocolHeader = "Sec-Websocket-Protocol"

// isUnreviewed distinguishes a failed review from a rejected token. Rejections, such as for an expired or malformed token, have only texts and no
// type.
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

// callerFor returns the clients of a user, created on first use, while the server may act for the user.
func (g *Gate) callerFor(ctx context.Context, who user.Info) (*Caller, error) {
	key := identityKey(who)
	acting, err := g.actingConfig(ctx, key, who)
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

// checkActingRights returns the impersonation of a user, or an [ActingError]. It caches the cluster's answer as long as other reviews.
func (g *Gate) actingConfig(ctx context.Context, key string, who user.Info) (rest.ImpersonationConfig, error) {
	acting, needed, err := impersonationFor(who)
	if err != nil {
		return acting, err
	}
	if kept, ok := g.acting.Get(key); ok {
		err, _ = kept.(error)
		return acting, err
	}
	err = checkActingRights(ctx, g.own, needed)
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

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"

	"g8s.host/gpu-scheduler/pkg/ledger"
	"g8s.host/gpu-scheduler/pkg/ledger/store"
)

const (
	// reviewTTL is how long reviews are cached, and thus how long a revoked right may still work.
	reviewTTL     = 5 * time.Second
	reviewTimeout = 10 * time.Second
)

// reviewBackoff retries reviews that fail for lack of a connection.
var reviewBackoff = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 4}

// Gate authenticates and authorizes callers through the cluster, by the token or client certificate that they use for the API server. A caller that
// may impersonate there may do so here.
type Gate struct {
	authn authenticator.Request
	authz authorizer.Authorizer
	// certificates provides the CAs of client certificates; nil if only tokens are accepted.
	certificates *dynamiccertificates.ConfigMapCAController
	// namespaceBegin returns when an existing namespace was created, or the API server's error for a missing one.
	namespaceBegin func(ctx context.Context, namespace string) (time.Time, error)
}

// NewGate returns a gate that uses a client of the cluster.
func NewGate(client kubernetes.Interface) (*Gate, error) {
	// Here the API server publishes the CA of its users' certificates.
	certificates, err := dynamiccertificates.NewDynamicCAFromConfigMapController(
		"client-ca", metav1.NamespaceSystem, "extension-apiserver-authentication", "client-ca-file", client)
	if err != nil {
		return nil, fmt.Errorf("setting up client certificates: %w", err)
	}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{
		TokenAccessReviewClient:            client.AuthenticationV1(),
		TokenAccessReviewTimeout:           reviewTimeout,
		WebhookRetryBackoff:                &reviewBackoff,
		CacheTTL:                           reviewTTL,
		ClientCertificateCAContentProvider: certificates,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up authentication: %w", err)
	}
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		AllowCacheTTL:             reviewTTL,
		DenyCacheTTL:              reviewTTL,
		WebhookRetryBackoff:       &reviewBackoff,
	}.New()
	if err != nil {
		return nil, fmt.Errorf("setting up authorization: %w", err)
	}
	begin := func(ctx context.Context, namespace string) (time.Time, error) {
		found, err := client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return time.Time{}, err
		}
		return found.CreationTimestamp.Time, nil
	}
	return &Gate{authn: newReviews(authn), authz: authz, certificates: certificates, namespaceBegin: begin}, nil
}

// Run keeps the CAs of client certificates up to date until ctx ends.
func (g *Gate) Run(ctx context.Context) error {
	if g.certificates == nil {
		return nil
	}
	if err := g.certificates.RunOnce(ctx); err != nil {
		return fmt.Errorf("reading by whom client certificates are signed: %w", err)
	}
	g.certificates.Run(ctx, 1)
	return nil
}

// withAuthentication admits callers that the cluster knows.
func (g *Gate) withAuthentication(next http.Handler) http.Handler {
	acting := impersonation.WithImpersonation(next, g.authz, scheme.Codecs)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, ok, err := g.authn.AuthenticateRequest(r)
		if errors.Is(err, errTooManyCallers) {
			w.Header().Set("Retry-After", "1")
			writeReply(w, http.StatusTooManyRequests, ledger.Failure{Error: "too many callers are asked about at this time: try again later"})
			return
		}
		if !ok {
			text := "the cluster does not know who asks: show a token or a certificate that is valid there"
			if err != nil {
				text = "who asks could not be found out: show a token or a certificate that is valid in the cluster, or try again later"
			}
			writeReply(w, http.StatusUnauthorized, ledger.Failure{Error: text})
			return
		}
		acting.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), response.User)))
	})
}

// readableNamespaces returns the namespaces that the caller may read with a right to their pods; none given means all. A caller with the right in all namespaces
// also reads the history of deleted ones. Others read only the current namespace with a name, because a deleted one may have belonged to others.
func (g *Gate) readableNamespaces(r *http.Request, namespaces []string, wanted podRight) ([]store.Namespace, error) {
	if len(namespaces) > maxNamespaces {
		return nil, badRequest(fmt.Sprintf("%d namespaces are too many, want at most %d", len(namespaces), maxNamespaces))
	}
	for _, namespace := range namespaces {
		if len(validation.IsDNS1123Label(namespace)) > 0 {
			return nil, badRequest(fmt.Sprintf("%.70q is no name of a namespace", namespace))
		}
	}
	everywhere, err := g.isAllowed(r, metav1.NamespaceAll, wanted)
	if err != nil {
		return nil, err
	}
	if len(namespaces) == 0 && !everywhere {
		return nil, &failure{http.StatusForbidden, "you may not " + wanted.words + " of all namespaces: name those that you may"}
	}
	out := make([]store.Namespace, len(namespaces))
	for i, namespace := range namespaces {
		out[i].Name = namespace
		if everywhere {
			continue
		}
		if out[i].Begin, err = g.beginFor(r, namespace, wanted); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// beginFor returns the creation time of a namespace in which the caller has a right.
func (g *Gate) beginFor(r *http.Request, namespace string, wanted podRight) (time.Time, error) {
	allowed, err := g.isAllowed(r, namespace, wanted)
	if err != nil {
		return time.Time{}, err
	}
	if !allowed {
		return time.Time{}, &failure{http.StatusForbidden, fmt.Sprintf("you may not %s of namespace %s", wanted.words, namespace)}
	}
	begin, err := g.namespaceBegin(r.Context(), namespace)
	switch {
	case apierrors.IsNotFound(err):
		return time.Time{}, &failure{http.StatusNotFound, fmt.Sprintf(
			"there is no namespace %s now; what it has left is for who may %s of all namespaces", namespace, wanted.words)}
	case err != nil:
		return time.Time{}, &failure{http.StatusServiceUnavailable, "the cluster cannot be asked about the namespace: try again later"}
	}
	return begin, nil
}

// isAllowed reports whether the caller has a right to the pods of a namespace, or of all.
func (g *Gate) isAllowed(r *http.Request, namespace string, wanted podRight) (bool, error) {
	who, _ := request.UserFrom(r.Context())
	decision, _, err := g.authz.Authorize(r.Context(), wanted.attributesFor(who, namespace))
	if err != nil {
		return false, &failure{http.StatusServiceUnavailable, "the cluster cannot be asked what you may: try again later"}
	}
	return decision == authorizer.DecisionAllow, nil
}

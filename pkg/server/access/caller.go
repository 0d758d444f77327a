package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Caller is an authenticated user with clients that act with its rights.
type Caller struct {
	User user.Info
	// Config connects to the API server as the caller.
	Config *rest.Config
	// Kubernetes reads as the caller.
	Kubernetes kubernetes.Interface
	// Streams is a client for endless reads. It buffers little that is not read.
	Streams kubernetes.Interface

	authz authorizer.Authorizer
}

// identityKey returns a key that is equal for users with the same rights.
func identityKey(who user.Info) string {
	groups := slices.Clone(who.GetGroups())
	slices.Sort(groups)
	// Encoding strings and maps of them cannot fail, and maps are written in the order of their keys.
	key, _ := json.Marshal([]any{who.GetName(), who.GetUID(), groups, who.GetExtra()})
	return string(key)
}

// Resource is a resource in terms of RBAC, such as pods or pods/log.
type Resource struct{ Group, Resource string }

func (r Resource) String() string {
	if r.Group == "" {
		return r.Resource
	}
	return r.Resource + "." + r.Group
}

// DeniedError is the right that a caller lacks.
type DeniedError struct {
	User, Verb string
	Resource   Resource
	// Namespace is "" for the whole cluster.
	Namespace string
	// Path is set for a right to a path, such as /metrics.
	Path string
}

func (e *DeniedError) Error() string {
	switch {
	case e.Path != "":
		return fmt.Sprintf("user %q may not %s %s", e.User, e.Verb, e.Path)
	case e.Namespace != "":
		return fmt.Sprintf("user %q may not %s %s in namespace %s", e.User, e.Verb, e.Resource, e.Namespace)
	}
	return fmt.Sprintf("user %q may not %s %s in the whole cluster", e.User, e.Verb, e.Resource)
}

// CheckListRight returns nil if the caller may list each of the resources in a namespace, or in the whole cluster for "". It returns a [DeniedError] if not,
// and another error if the cluster could not be reached.
func (c *Caller) CheckListRight(ctx context.Context, namespace string, resources ...Resource) error {
	return c.CheckRight(ctx, "list", namespace, resources...)
}

// CheckRight is like [Caller.CheckListRight] for any verb.
func (c *Caller) CheckRight(ctx context.Context, verb, namespace string, resources ...Resource) error {
	return c.CheckNamedRight(ctx, verb, namespace, "", resources...)
}

// CheckNamedRight is like [Caller.CheckRight] for the object with a name: a right may cover only this object.
func (c *Caller) CheckNamedRight(ctx context.Context, verb, namespace, name string, resources ...Resource) error {
	for _, resource := range resources {
		kind, part, _ := strings.Cut(resource.Resource, "/")
		allowed, err := c.isAllowed(ctx, authorizer.AttributesRecord{
			User: c.User, Verb: verb, Namespace: namespace, ResourceRequest: true,
			APIGroup: resource.Group, APIVersion: "v1", Resource: kind, Subresource: part, Name: name,
		})
		if err != nil {
			return err
		}
		if !allowed {
			return &DeniedError{User: c.User.GetName(), Verb: verb, Resource: resource, Namespace: namespace}
		}
	}
	return nil
}

// CheckPathRight returns nil if the caller may get a path of the server, such as /metrics.
func (c *Caller) CheckPathRight(ctx context.Context, path string) error {
	allowed, err := c.isAllowed(ctx, authorizer.AttributesRecord{User: c.User, Verb: "get", Path: path})
	if err != nil {
		return err
	}
	if !allowed {
		return &DeniedError{User: c.User.GetName(), Verb: "get", Path: path}
	}
	return nil
}

func (c *Caller) isAllowed(ctx context.Context, attributes authorizer.AttributesRecord) (bool, error) {
	decision, _, err := c.authz.Authorize(ctx, attributes)
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reviewing the rights of %s: %w", c.User.GetName(), err)
	}
	return false, nil
}

// maxReviews bounds the concurrent reviews of a request.
const maxReviews = 16

// Scope is the set of namespaces in which a caller may list something.
type Scope struct {
	all        bool
	namespaces map[string]bool
	// Denied is the reason why the scope is not the whole cluster; nil if it is.
	Denied error
}

// Has reports whether the scope covers a namespace.
func (s Scope) Has(namespace string) bool { return s.all || s.namespaces[namespace] }

// Empty reports whether the scope covers nothing.
func (s Scope) Empty() bool { return !s.all && len(s.namespaces) == 0 }

// CoversSame reports whether two scopes cover the same.
func (s Scope) CoversSame(other Scope) bool {
	return s.all == other.all && maps.Equal(s.namespaces, other.namespaces)
}

// KeptScope is a scope that is found again at intervals, and for other candidates.
type KeptScope struct {
	TTL time.Duration

	found      *Scope
	at         time.Time
	candidates []string
}

// FindScope returns the scope that was found for the same candidates less than TTL ago, else that of find. Where find fails it keeps the scope before, except for
// a [DeniedError]: a cluster that does not answer for a moment takes no rights away.
func (k *KeptScope) FindScope(now time.Time, candidates []string, find func() (Scope, error)) (Scope, error) {
	if k.found != nil && now.Sub(k.at) < k.TTL && slices.Equal(k.candidates, candidates) {
		return *k.found, nil
	}
	scope, err := find()
	switch {
	case err == nil:
		k.found, k.at, k.candidates = &scope, now, candidates
		return scope, nil
	case k.found == nil || errors.As(err, new(*DeniedError)):
		return Scope{}, err
	}
	return *k.found, nil
}

// FindScope returns where the caller may list all of the resources: in the whole cluster, else in which of the candidates. It reviews several candidates
// concurrently and caches the results.
func (c *Caller) FindScope(ctx context.Context, candidates []string, resources ...Resource) (Scope, error) {
	err := c.CheckListRight(ctx, "", resources...)
	if err == nil {
		return Scope{all: true}, nil
	}
	if !errors.As(err, new(*DeniedError)) {
		return Scope{}, err
	}
	granted := make([]bool, len(candidates))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxReviews)
	for i, namespace := range candidates {
		group.Go(func() error {
			err := c.CheckListRight(ctx, namespace, resources...)
			if errors.As(err, new(*DeniedError)) {
				return nil
			}
			granted[i] = err == nil
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return Scope{}, err
	}
	scope := Scope{namespaces: map[string]bool{}, Denied: err}
	for i, namespace := range candidates {
		if granted[i] {
			scope.namespaces[namespace] = true
		}
	}
	return scope, nil
}

// OneNamespace is the scope of one namespace.
func OneNamespace(namespace string) Scope { return Scope{namespaces: map[string]bool{namespace: true}} }

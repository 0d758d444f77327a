package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/pkg/server/access"
)

// Self describes a caller as the cluster sees it, and the caller's rights in a namespace.
type Self struct {
	User      string   `json:"user"`
	UID       string   `json:"uid,omitempty"`
	Groups    []string `json:"groups"`
	Namespace string   `json:"namespace" doc:"The namespace that rules are about; those of the whole cluster are among them"`
	Rules     []Rule   `json:"rules"`
	Paths     []Rule   `json:"paths" doc:"Rights to paths, such as /metrics"`
	// Incomplete is set when an authorizer cannot list its rules.
	Incomplete bool   `json:"incomplete,omitempty" doc:"There may be more rights than these: ask for one with POST"`
	Message    string `json:"message,omitempty" doc:"Why the rules are incomplete"`
}

// Rule is a right in the terms of Kubernetes RBAC.
type Rule struct {
	Verbs     []string `json:"verbs"`
	APIGroups []string `json:"apiGroups,omitempty"`
	Resources []string `json:"resources,omitempty"`
	Names     []string `json:"resourceNames,omitempty" doc:"Only the objects of these names"`
	Paths     []string `json:"paths,omitempty"`
}

type selfInput struct {
	Namespace string `query:"namespace" maxLength:"63" pattern:"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$" default:"default" doc:"The namespace to tell the rights in"`
}

type selfOutput struct{ Body Self }

type mayInput struct {
	Body struct {
		Resource  string `json:"resource" enum:"jobs,queue,pools,nodes,labels,quotas,namespaces"`
		Action    string `json:"action" enum:"read,get,list,create,update,delete" doc:"get and list are read"`
		Namespace string `json:"namespace,omitempty" maxLength:"63" doc:"The namespace of jobs and quotas; the whole cluster without it"`
		Pool      string `json:"pool,omitempty" maxLength:"63" doc:"Accepted for old clients: pools are labels of nodes, and have no rights of their own"`
	}
}

// Permission says whether a caller may do something.
type Permission struct {
	Allowed bool   `json:"allowed"`
	Message string `json:"message" doc:"Which right is missing, if one is"`
}

type mayOutput struct{ Body Permission }

func (s *Server) authRoutes() {
	registerRoute(s, route{method: http.MethodGet, path: Root + "/auth/check", id: "getSelf", tag: "auth",
		summary: "Who you are, and what you may do in a namespace",
		detail:  "As the API server itself tells it you, in the words of RBAC.", anyone: true}, s.getSelf)
	registerRoute(s, route{method: http.MethodPost, path: Root + "/auth/check", id: "checkAccess", tag: "auth",
		summary: "Whether you may do something with the resources of this API",
		detail:  "What is done is done with rights on several kinds of Kubernetes; all of them are looked at.", anyone: true}, s.checkAccess)
}

// getSelf asks with the caller's identity. The answer therefore shows how the API server sees the identity that this server uses for the caller.
func (s *Server) getSelf(ctx context.Context, in *selfInput) (*selfOutput, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	self, err := caller.Kubernetes.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking the cluster who you are: %w", err)
	}
	asked := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in.Namespace}}
	review, err := caller.Kubernetes.AuthorizationV1().SelfSubjectRulesReviews().Create(ctx, asked, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("asking the cluster what you may do: %w", err)
	}
	user := self.Status.UserInfo
	out := Self{
		User: user.Username, UID: user.UID, Groups: orEmpty(user.Groups), Namespace: in.Namespace,
		Rules: []Rule{}, Paths: []Rule{}, Incomplete: review.Status.Incomplete, Message: review.Status.EvaluationError,
	}
	for _, rule := range review.Status.ResourceRules {
		out.Rules = append(out.Rules, Rule{Verbs: orEmpty(rule.Verbs), APIGroups: rule.APIGroups, Resources: rule.Resources, Names: rule.ResourceNames})
	}
	for _, rule := range review.Status.NonResourceRules {
		out.Paths = append(out.Paths, Rule{Verbs: orEmpty(rule.Verbs), Paths: rule.NonResourceURLs})
	}
	return &selfOutput{Body: out}, nil
}

// topResources are the kinds that a job can be.
var topResources = []access.Resource{{Group: "batch", Resource: "jobs"}, {Group: "apps", Resource: "deployments"}}

// requiredRights lists the Kubernetes rights behind an API resource: verbs per action on each of the resources, cluster-wide if whole is set.
type requiredRights struct {
	resources []access.Resource
	// verbs are those of each action.
	verbs map[string][]string
	// whole requires the rights in the whole cluster.
	whole bool
}

// rightsFor returns the Kubernetes rights that an action on an API resource requires.
func rightsFor(resource, action string) requiredRights {
	fleet := map[string][]string{"read": {"list"}, "create": {"list", "patch"}, "update": {"list", "patch"}, "delete": {"list", "patch"}}
	objects := map[string][]string{"read": {"list"}, "create": {"create"}, "update": {"list", "patch"}, "delete": {"list", "delete"}}
	switch resource {
	case "jobs", "queue":
		if action == "read" {
			return requiredRights{resources: jobResources, verbs: objects}
		}
		objects["create"] = []string{"list", "create"}
		return requiredRights{resources: topResources, verbs: objects}
	case "quotas":
		return requiredRights{resources: []access.Resource{quotaResource}, verbs: objects}
	case "namespaces":
		return requiredRights{resources: []access.Resource{namespaceResource}, verbs: objects, whole: true}
	}
	return requiredRights{resources: []access.Resource{nodeResource}, verbs: fleet, whole: true}
}

func (s *Server) checkAccess(ctx context.Context, in *mayInput) (*mayOutput, error) {
	caller, err := callerFrom(ctx)
	if err != nil {
		return nil, err
	}
	action := in.Body.Action
	if action == "get" || action == "list" {
		action = "read"
	}
	if in.Body.Resource == "queue" && action != "read" {
		return nil, invalidErrorf("the queue is only read: what is done to it is done to jobs")
	}
	need, namespace := rightsFor(in.Body.Resource, action), in.Body.Namespace
	if need.whole {
		namespace = ""
	}
	for _, verb := range need.verbs[action] {
		err := caller.CheckRight(ctx, verb, namespace, need.resources...)
		var denied *access.DeniedError
		switch {
		case errors.As(err, &denied):
			return &mayOutput{Body: Permission{Message: denied.Error()}}, nil
		case err != nil:
			return nil, err
		}
	}
	return &mayOutput{Body: Permission{Allowed: true, Message: "you may"}}, nil
}

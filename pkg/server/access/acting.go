package access

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ActingError means that the server may not act for a user, so it rejects the user's requests.
type ActingError struct {
	// Kind is serviceaccounts, users or groups, Namespace that of a ServiceAccount.
	Kind, Namespace, Name string
	// System marks a name of Kubernetes itself, for which the server never acts.
	System bool
}

func (e *ActingError) Error() string {
	switch {
	case e.System:
		return fmt.Sprintf("this server does not act for %q, which is Kubernetes' own: use the token of a ServiceAccount or of a person", e.Name)
	case e.Kind == "serviceaccounts":
		return fmt.Sprintf("this server may not act for the ServiceAccounts of namespace %s: an administrator permits it with "+
			"kubectl create rolebinding gpuctl-server -n %s --clusterrole=g8s:gpuctl-server-callers --serviceaccount=gpuctl-server:gpuctl-server",
			e.Namespace, e.Namespace)
	}
	return fmt.Sprintf("this server may not act for %q of the %s: an administrator adds the name to a role of the server, as docs/api.md tells",
		e.Name, e.Kind)
}

// impersonationFor returns the impersonation of a user and the rights that it requires: to the user, and to each group that the user does not imply. It rejects
// Kubernetes' own names: a member of system:masters may do everything.
func impersonationFor(who user.Info) (rest.ImpersonationConfig, []authorizationv1.ResourceAttributes, error) {
	config := rest.ImpersonationConfig{UserName: who.GetName(), UID: who.GetUID(), Extra: who.GetExtra()}
	implied := []string{user.AllAuthenticated}
	namespace, account, err := serviceaccount.SplitUsername(who.GetName())
	needed := []authorizationv1.ResourceAttributes{{Resource: "users", Name: who.GetName()}}
	switch {
	case err == nil:
		needed[0] = authorizationv1.ResourceAttributes{Resource: "serviceaccounts", Namespace: namespace, Name: account}
		implied = append(implied, serviceaccount.MakeGroupNames(namespace)...)
	case strings.HasPrefix(who.GetName(), "system:"):
		return config, nil, &ActingError{Kind: "users", Name: who.GetName(), System: true}
	}
	for _, group := range who.GetGroups() {
		if slices.Contains(implied, group) {
			continue
		}
		if strings.HasPrefix(group, "system:") {
			return config, nil, &ActingError{Kind: "groups", Name: group, System: true}
		}
		config.Groups = append(config.Groups, group)
		needed = append(needed, authorizationv1.ResourceAttributes{Resource: "groups", Name: group})
	}
	for i := range needed {
		needed[i].Verb = "impersonate"
	}
	return config, needed, nil
}

// checkActingRights checks whether the server may impersonate, and returns an [ActingError] that names the first missing right.
func checkActingRights(ctx context.Context, own kubernetes.Interface, needed []authorizationv1.ResourceAttributes) error {
	for _, right := range needed {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right}}
		answer, err := own.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("reviewing the rights of the server: %w", err)
		}
		if !answer.Status.Allowed {
			return &ActingError{Kind: right.Resource, Namespace: right.Namespace, Name: right.Name}
		}
	}
	return nil
}

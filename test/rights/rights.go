// Package rights waits until the API server knows of rights that a test has just given. It follows roles and bindings as all
// programs do, some moments behind, and until then refuses who has them.
package rights

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/test/bounds"
)

const (
	patience = bounds.Patience
	poll     = 20 * time.Millisecond
)

// Await returns when somebody has all rights of a role in a namespace, "" for the whole cluster. The client must be one that may
// ask about others.
func Await(ctx context.Context, client kubernetes.Interface, namespace string, role rbacv1.RoleRef, to rbacv1.Subject) error {
	rules, err := rulesOf(ctx, client, namespace, role)
	if err != nil {
		return fmt.Errorf("reading %s %s: %w", role.Kind, role.Name, err)
	}
	spec := askedAbout(to)
	for i := range rules {
		spec.ResourceAttributes, spec.NonResourceAttributes = exampleOf(&rules[i], namespace)
		review := &authorizationv1.SubjectAccessReview{Spec: spec}
		err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
			answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
			return err == nil && answer.Status.Allowed, err
		})
		if err != nil {
			return fmt.Errorf("%s %s has not the rights of %s %s: %w", to.Kind, to.Name, role.Kind, role.Name, err)
		}
	}
	return nil
}

func rulesOf(ctx context.Context, client kubernetes.Interface, namespace string, role rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	if role.Kind == "Role" {
		found, err := client.RbacV1().Roles(namespace).Get(ctx, role.Name, metav1.GetOptions{})
		return found.Rules, err
	}
	found, err := client.RbacV1().ClusterRoles().Get(ctx, role.Name, metav1.GetOptions{})
	return found.Rules, err
}

// askedAbout is a review of somebody, without what of.
func askedAbout(to rbacv1.Subject) authorizationv1.SubjectAccessReviewSpec {
	switch to.Kind {
	case rbacv1.ServiceAccountKind:
		return authorizationv1.SubjectAccessReviewSpec{
			User:   "system:serviceaccount:" + to.Namespace + ":" + to.Name,
			Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + to.Namespace, "system:authenticated"},
		}
	case rbacv1.GroupKind:
		return authorizationv1.SubjectAccessReviewSpec{User: "nobody", Groups: []string{to.Name}}
	}
	return authorizationv1.SubjectAccessReviewSpec{User: to.Name}
}

// exampleOf is something that a rule allows.
func exampleOf(rule *rbacv1.PolicyRule, namespace string) (*authorizationv1.ResourceAttributes, *authorizationv1.NonResourceAttributes) {
	if len(rule.NonResourceURLs) > 0 {
		return nil, &authorizationv1.NonResourceAttributes{Path: rule.NonResourceURLs[0], Verb: rule.Verbs[0]}
	}
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	out := &authorizationv1.ResourceAttributes{
		Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: resource, Subresource: subresource,
	}
	if len(rule.ResourceNames) > 0 {
		out.Name = rule.ResourceNames[0]
	}
	return out, nil
}

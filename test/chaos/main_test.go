// Package chaos kills and freezes the leading scheduler, again and again, while pods are placed, and holds the promises
// of placement against every revision of the history. docs/failover.md has the figures.
package chaos

import (
	"context"
	"flag"
	"os"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/rights"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// Each round is 50 pods: with 20 rounds a test places 1,000.
var (
	kills = flag.Int("kills", 3, "how often the leader is killed")
	stops = flag.Int("stops", 3, "how often the leader is stopped past its lease and continued")
	// Each round is 40 pods.
	losses = flag.Int("losses", shortLosses, "how often the API server is away while answers are lost")
	// Each round is half a minute.
	vain = flag.Int("vain", 1, "how often pods come for which others would leave for nothing")
)

const shortLosses = 2

// withoutPolicies runs what has to hold on a cluster whose administrator has not installed manifests/policy. What the
// fence is for does not hold there.
var withoutPolicies = flag.Bool("without-policies", false, "take the admission policies away first")

// The cluster that all tests share. Each places its pods in a namespace of its own. Pods are a user's: most policies do
// not hold for administrators.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	user    kubernetes.Interface
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(sandboxtest.Main(m, sandbox.Options{}, func(ctx context.Context, s *sandbox.Sandbox) (err error) {
		cluster = s
		if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
			return err
		}
		if err := cluster.InstallScheduler(ctx); err != nil {
			return err
		}
		if *withoutPolicies {
			bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
			if err := bindings.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				return err
			}
		}
		user, err = newUser(ctx, "alice")
		return err
	}))
}

// needsPolicies skips a test of what the policies do.
func needsPolicies(t *testing.T) {
	t.Helper()
	if *withoutPolicies {
		t.Skip("without policies the old leader's bindings are not refused")
	}
}

// newUser returns a client of a user who may do everything with pods, and nothing to the policies.
func newUser(ctx context.Context, name string) (kubernetes.Interface, error) {
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods", "pods/status", "pods/binding", "pods/ephemeralcontainers", "bindings"}, Verbs: []string{"*"}}},
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	return userWith(ctx, name, role.Name)
}

// userWith returns a client of somebody who has a ClusterRole everywhere.
func userWith(ctx context.Context, name, role string) (kubernetes.Interface, error) {
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := rights.Await(ctx, client, "", binding.RoleRef, binding.Subjects[0]); err != nil {
		return nil, err
	}
	config := cluster.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: name}
	return kubernetes.NewForConfig(config)
}

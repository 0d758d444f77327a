// Package server lets one caller do their worst to the REST API, and watches what it costs all others: the program itself
// serves a real API server, under the memory that the Deployment gives it, and a neighbour goes on calling.
//
// The limit is GOMEMLIMIT as in manifests/server, and what counts is the highest resident size that Linux has seen of the
// process (VmHWM): a limit of a cgroup would need rights that not everybody who runs tests has, and would only end the
// program. Requests are sent as fast as the server takes them of one caller, and sixteen at a time.
//
// As a part of all tests each kind of request is sent some dozen times; ABUSE=all sends a thousand of each, and holds the
// neighbour's latency to twice what it is on an idle server. That needs a machine that does nothing else.
package server

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/rights"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share, its administrator, and the tokens of the callers.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	tokens  = map[string]string{}
)

// The callers, who have the same rights: to all jobs of the namespace team, and to see everything.
const (
	attacker  = "attacker"
	neighbour = "neighbour"
	team      = "team"
)

// accomplices are identities more of the attacker's, who may make as many as they like.
var accomplices = []string{"accomplice-1", "accomplice-2", "accomplice-3", "accomplice-4"}

func TestMain(m *testing.M) {
	if os.Getenv(envAttack) != "" {
		attackAsToldTo()
	}
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil { // for the priority classes
		return err
	}
	if err := cluster.InstallServer(ctx); err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	acting := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: sandbox.ServerNamespace, Name: sandbox.ServerName}
	if err := bind(ctx, team, "g8s:gpuctl-server-callers", acting); err != nil {
		return err
	}
	for _, name := range append([]string{attacker, neighbour}, accomplices...) {
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client.CoreV1().ServiceAccounts(team).Create(ctx, account, metav1.CreateOptions{}); err != nil {
			return err
		}
		own := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: team, Name: name}
		for role, namespace := range map[string]string{"g8s:user": team, "g8s:reader": "", "g8s:fleet-reader": ""} {
			if err := bind(ctx, namespace, role, own); err != nil {
				return err
			}
		}
		token, err := client.CoreV1().ServiceAccounts(team).CreateToken(ctx, name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		tokens[name] = token.Status.Token
	}
	return nil
}

// bind gives a role in a namespace, or in the whole cluster without it.
func bind(ctx context.Context, namespace, role string, to rbacv1.Subject) error {
	meta := metav1.ObjectMeta{GenerateName: "abuse-"}
	ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	if namespace == "" {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{to}}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return err
		}
		return rights.Await(ctx, client, "", ref, to)
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: []rbacv1.Subject{to}}
	if _, err := client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	return rights.Await(ctx, client, namespace, ref, to)
}

// program is a binary of ours.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("%v: run %q in the repository", err, "make build")
	}
	return path
}

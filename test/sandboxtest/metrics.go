package sandboxtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/rights"
)

// MetricsToken makes a ServiceAccount with the role that we ship for Prometheus, and nothing else, and returns its token.
func MetricsToken(ctx context.Context, cluster *sandbox.Sandbox, client kubernetes.Interface) (string, error) {
	file := filepath.Join(cluster.Dir(), "reader.yaml")
	role, err := manifests.FS.ReadFile("monitoring/access/reader.yaml")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(file, role, 0o600); err != nil {
		return "", err
	}
	if _, err := cluster.RunKubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
		return "", err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "prometheus", Namespace: metav1.NamespaceDefault}}
	if _, err := client.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("making the account of Prometheus: %w", err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "prometheus"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "g8s:metrics-reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}},
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("letting Prometheus in: %w", err)
	}
	if err := rights.Await(ctx, client, "", binding.RoleRef, binding.Subjects[0]); err != nil {
		return "", err
	}
	request, err := client.CoreV1().ServiceAccounts(account.Namespace).CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("making the token of Prometheus: %w", err)
	}
	return request.Status.Token, nil
}

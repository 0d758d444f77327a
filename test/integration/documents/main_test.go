// Package documents tries what the published documents show, item by item, with their blocks as they are printed: testdata has
// a folder of each. gpuctl, kubectl and gpuctl-server work on a sandbox with our scheduler beside Kubernetes' own, and its nodes are
// as gpu-agent makes them. Where we differ, docs/documents.md says so and why; a test compares.
package documents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/rights"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share, what gpuctl-server connects with, and the token of its caller.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	own     *rest.Config
	token   string
	// researcher is a kubeconfig of a user who may make jobs, and is no administrator.
	researcher string
)

// fleet is a node without GPUs, which the others are like but for their cards.
const fleet = `groups: [{namePrefix: cpu, count: 1, cpu: "128", memory: 1Ti}]`

func TestMain(m *testing.M) {
	nodes, err := sandbox.ParseFleet([]byte(fleet))
	if err != nil {
		fmt.Fprintln(os.Stderr, "parsing the fleet of the tests:", err)
		os.Exit(1)
	}
	options := sandbox.FullOptions()
	options.Fleet = &nodes
	options.HostExec = true // a command in a container is run on this machine
	os.Exit(sandboxtest.Main(m, options, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	if err := cluster.InstallServer(ctx); err != nil {
		return err
	}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(ctx, sandbox.ServerNamespace, sandbox.ServerName)
	if err != nil {
		return err
	}
	if own, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	if token, err = caller(ctx); err != nil {
		return err
	}
	if err := makeResearcher(ctx); err != nil {
		return err
	}
	if err := startNodes(ctx); err != nil {
		return err
	}
	if _, err := cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return err
	}
	if err := startStockScheduler(ctx); err != nil {
		return err
	}
	if err := cluster.InstallController(ctx); err != nil {
		return err
	}
	_, err = cluster.StartController(ctx, sandbox.ControllerOptions{})
	return err
}

// startStockScheduler runs Kubernetes' own scheduler, which places the pods that name none: ours without our plugins.
func startStockScheduler(ctx context.Context) error {
	const name = "kube-scheduler"
	kubeconfig, err := cluster.UserKubeconfig(name, "system:kube-scheduler")
	if err != nil {
		return err
	}
	config := filepath.Join(cluster.Dir(), name+".yaml")
	text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"leaderElection: {leaderElect: false}\nclientConnection: {kubeconfig: %s}\n", kubeconfig)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	port, err := sandbox.FreePort("127.0.0.1")
	if err != nil {
		return err
	}
	_, err = cluster.StartProcess(ctx, sandbox.ProcessSpec{
		Name: name, Path: filepath.Join(filepath.Dir(cluster.BinDir()), "gpu-scheduler"), Port: port,
		Args: []string{"--config=" + config, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port),
			"--cert-dir=" + filepath.Join(cluster.Dir(), "certs", name)},
		Ready: sandbox.HTTPReady(fmt.Sprintf("https://127.0.0.1:%d/healthz", port)),
	})
	return err
}

// makeResearcher lets a user edit what is in namespaces, as Kubernetes' own role has it.
func makeResearcher(ctx context.Context) (err error) {
	const name = "researcher"
	if researcher, err = cluster.UserKubeconfig(name, name); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}}}
	if _, err = client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return err
	}
	return rights.Await(ctx, client, "", binding.RoleRef, binding.Subjects[0])
}

// caller makes a ServiceAccount that may do all that the API offers, and returns its token.
func caller(ctx context.Context) (string, error) {
	const namespace, name = "callers", "admin"
	meta := metav1.ObjectMeta{Name: namespace}
	if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	role := func(name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: sandbox.ServerName}, RoleRef: role("g8s:gpuctl-server-callers"),
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: sandbox.ServerNamespace, Name: sandbox.ServerName}}}
	if _, err := client.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	if err := rights.Await(ctx, client, namespace, binding.RoleRef, binding.Subjects[0]); err != nil {
		return "", err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().ServiceAccounts(namespace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return "", err
	}
	for _, each := range []string{"g8s:reader", "g8s:user", "g8s:admin"} {
		to := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{GenerateName: name}, RoleRef: role(each), Subjects: []rbacv1.Subject{to},
		}, metav1.CreateOptions{}); err != nil {
			return "", err
		}
		if err := rights.Await(ctx, client, "", role(each), to); err != nil {
			return "", err
		}
	}
	made, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](3600)},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return made.Status.Token, nil
}

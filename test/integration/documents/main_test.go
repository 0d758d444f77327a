// Package documents runs what the two published documents show, row by row: the mapping of gpuctl to Kubernetes, its
// commands, routes and files, and the case study of a GPU scheduler, its nodes and pods. gpuctl and gpuctl-server work on a
// sandbox with our scheduler. Where we differ, docs/documents.md says so and why; a test compares.
package documents

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/rights"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// patience is how long a test waits for what comes at once on an idle machine.
const patience = bounds.Patience

// The cluster that all tests share, what gpuctl-server connects with, and the token of its caller.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	own     *rest.Config
	token   string
)

// fleet has the pools of the mapping's files.
const fleet = `
groups:
- {namePrefix: train, count: 2, pool: training-pool, gpuType: A100-100G, gpusPerNode: 8, gpuMemory: 100Gi, interconnect: nvlink, cpu: "128", memory: 1Ti}
- {namePrefix: infer, count: 1, pool: inference-pool, gpuType: A100-100G, gpusPerNode: 4, gpuMemory: 100Gi, interconnect: pcie, cpu: "64", memory: 512Gi}
- {namePrefix: dev, count: 1, pool: dev-pool, gpuType: a10-24g, gpusPerNode: 4, gpuMemory: 24Gi, interconnect: pcie, cpu: "64", memory: 256Gi}
`

func TestMain(m *testing.M) {
	nodes, err := sandbox.ParseFleet([]byte(fleet))
	if err != nil {
		fmt.Fprintln(os.Stderr, "parsing the fleet of the tests:", err)
		os.Exit(1)
	}
	options := sandbox.Full()
	options.Fleet = &nodes
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
	for _, name := range []string{"node1", "node2"} { // the nodes of pool.yaml
		if err := register(ctx, bare(name, nil), corev1.ResourceList{"nvidia.com/gpu": amount("8")}); err != nil {
			return err
		}
	}
	_, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	return err
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

// register makes a node, ready and with what it offers beside CPU and memory, as its kubelet would. It is simulated, and that
// is said from the beginning, since kwok looks after no other.
func register(ctx context.Context, node *corev1.Node, offers corev1.ResourceList) error {
	one, err := sandbox.ParseFleet([]byte("groups: [{namePrefix: x, count: 1, cpu: \"128\", memory: 1Ti}]"))
	if err != nil {
		return err
	}
	like := one.Nodes(time.Now(), 0)[0]
	node.Annotations, node.Status = like.Annotations, like.Status
	for resource, quantity := range offers {
		node.Status.Capacity[resource], node.Status.Allocatable[resource] = quantity, quantity
	}
	_, err = client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// bare is a node of a name, with labels.
func bare(name string, labels map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

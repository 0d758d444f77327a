// Package policy tests what the policies of manifests/policy refuse to whom, on a real API server with its controllers:
// each attack beside the nearest thing that must pass.
package policy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/cli"
	"g8s.host/gpu-scheduler/manifests"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/rights"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// patience is how long a test waits for what should come at once on an idle machine.
const patience = bounds.Patience

// The cluster that all tests share, and its administrator.
var (
	cluster *sandbox.Sandbox
	admin   kubernetes.Interface
)

// fleet has a pool of each kind that the examples ask for, and one that is closed to most.
const fleet = `
groups:
- {namePrefix: train, count: 2, pool: training-pool, gpuType: A100-100G, gpusPerNode: 8, gpuMemory: 100Gi, interconnect: nvlink, cpu: "128", memory: 1Ti}
- {namePrefix: gold, count: 1, pool: gold-pool, gpuType: H100-80G, gpusPerNode: 8, gpuMemory: 80Gi, interconnect: nvlink, cpu: "128", memory: 1Ti}
- {namePrefix: any, count: 1, gpuType: T4-16G, gpusPerNode: 4, gpuMemory: 16Gi, interconnect: pcie, cpu: "64", memory: 256Gi}
`

func TestMain(m *testing.M) {
	nodes, err := sandbox.ParseFleet([]byte(fleet))
	if err != nil {
		fmt.Fprintln(os.Stderr, "parsing the fleet of the tests:", err)
		os.Exit(1)
	}
	options := sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &nodes}
	os.Exit(sandboxtest.Main(m, options, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if admin, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil {
		return err
	}
	if err := cluster.ApplyManifests(ctx, manifests.FS, "server"); err != nil { // for its roles
		return err
	}
	if _, err = cluster.StartScheduler(ctx, sandbox.SchedulerOptions{}); err != nil {
		return err
	}
	return awaitPolicies(ctx)
}

// awaitPolicies waits until the API server holds pods to all policies: it learns of them some moments after they are made.
func awaitPolicies(ctx context.Context) error {
	controller := as(jobController)
	for _, change := range []func(*corev1.Pod){privileged, mounts("/"), annotated(names.AnnotationDecision, ""), portOfItsNode} {
		pod := plain()
		change(pod)
		err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			_, err := controller.CoreV1().Pods(metav1.NamespaceDefault).Create(ctx, pod, dryRun)
			return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// Identities of the cluster itself.
var (
	jobController       = serviceAccount("job-controller")
	daemonSetController = serviceAccount("daemon-set-controller")
	controllerManager   = rest.ImpersonationConfig{UserName: "system:kube-controller-manager", Groups: []string{"system:authenticated"}}
	masters             = rest.ImpersonationConfig{UserName: "root", Groups: []string{"system:masters"}}
)

func serviceAccount(name string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{
		UserName: "system:serviceaccount:kube-system:" + name,
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"},
	}
}

func kubelet(node string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
}

func user(name string) rest.ImpersonationConfig {
	return rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}}
}

// as returns a client that acts as somebody else.
func as(who rest.ImpersonationConfig) kubernetes.Interface {
	config := cluster.RESTConfig()
	config.Impersonate = who
	return kubernetes.NewForConfigOrDie(config)
}

// team makes a namespace in which ana has the roles of a user of jobs, as manifests/server/roles.yaml says.
func team(t *testing.T, labels map[string]string) string {
	t.Helper()
	namespace, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "team-", Labels: labels},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"g8s:reader", "g8s:user"} {
		bind(t, namespace.Name, role)
	}
	return namespace.Name
}

// bind gives ana a ClusterRole in a namespace.
func bind(t *testing.T, namespace, role string) {
	t.Helper()
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "ana"}},
	}
	if _, err := admin.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := rights.Await(t.Context(), admin, namespace, binding.RoleRef, binding.Subjects[0]); err != nil {
		t.Fatal(err)
	}
}

// bindEverywhere gives a user a ClusterRole in the whole cluster.
func bindEverywhere(t *testing.T, role, user string) {
	t.Helper()
	bindSubjectEverywhere(t, role, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user})
}

// bindGroupEverywhere gives a group a ClusterRole in the whole cluster.
func bindGroupEverywhere(t *testing.T, role, group string) {
	t.Helper()
	bindSubjectEverywhere(t, role, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
}

func bindSubjectEverywhere(t *testing.T, role string, to rbacv1.Subject) {
	t.Helper()
	binding, err := admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{to},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := rights.Await(t.Context(), admin, "", binding.RoleRef, to); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), binding.Name, metav1.DeleteOptions{})
	})
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// gpuctl runs the real command tree as ana, in a pipe.
func gpuctl(t *testing.T, namespace, stdin string, args ...string) result {
	t.Helper()
	streams, stdout, stderr := cli.TestIOStreams(stdin)
	all := append([]string{"gpuctl", "--kubeconfig", cluster.Kubeconfig(), "--as", "ana", "-n", namespace}, args...)
	code := cli.Run(t.Context(), cli.NewFactory(streams), all)
	return result{code: code, stdout: stdout.String(), stderr: stderr.String()}
}

// checkRefusal compares an error with what it must say, "" for no error.
func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Errorf("got error %v", err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func(ctx context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(context.Background(), 100*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return holds(ctx), nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

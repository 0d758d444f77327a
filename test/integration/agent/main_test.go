// Package agent tests what gpu-agent tells the API server, on a real one, with the rights of manifests/agent: what it
// writes to its node, how soon, and what it may not. kubelet and the runtime are those of test/node.
package agent

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"g8s.host/gpu-scheduler/manifests"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/bounds"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// patience is how long a test waits for what should come at once on an idle machine.
const patience = bounds.Patience

const account = "gpu-agent"

var (
	cluster *sandbox.Sandbox
	admin   kubernetes.Interface
)

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, sandbox.Options{}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	if admin, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.ApplyManifests(ctx, manifests.FS, "agent"); err != nil {
		return err
	}
	return awaitPolicy(ctx)
}

// awaitPolicy waits until the API server holds agents to the policy: it learns of it some moments after it is made.
func awaitPolicy(ctx context.Context) error {
	if err := makeNode(ctx, "probe"); err != nil {
		return err
	}
	stranger, err := kubernetes.NewForConfig(asAgent(cluster.RESTConfig()))
	if err != nil {
		return err
	}
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := stranger.CoreV1().Nodes().Patch(ctx, "probe", types.MergePatchType, []byte(`{"metadata":{"annotations":{"a":"b"}}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			return false, nil
		}
		_, err = stranger.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "probe-"}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: metav1.NamespaceDefault},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy"), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the policy: %w", err)
	}
	return nil
}

// asAgent is the agent's account without a pod, so without a node.
func asAgent(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:kube-system:" + account,
		Groups: []string{"system:serviceaccounts", "system:authenticated"}}
	return config
}

func makeNode(ctx context.Context, name string) error {
	node, err := admin.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.NodeInfo.KubeletVersion = "v1.35.4"
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = admin.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

// onNode returns the credentials of an agent whose pod runs on a node: a token as kubelet gives it to the pod.
func onNode(t *testing.T, node string) *rest.Config {
	t.Helper()
	pods := admin.CoreV1().Pods(metav1.NamespaceSystem)
	pod, err := pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gpu-agent-"},
		Spec: corev1.PodSpec{NodeName: node, ServiceAccountName: account,
			Containers: []corev1.Container{{Name: "gpu-agent", Image: "gpu-agent"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	seconds := int64(3600)
	token, err := admin.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds,
			BoundObjectRef: &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(cluster.RESTConfig())
	config.BearerToken = token.Status.Token
	return config
}

// runtime is a container runtime that runs nothing.
type runtime struct {
	cri.UnimplementedRuntimeServiceServer
	version string
}

func (r *runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{RuntimeName: "containerd", RuntimeVersion: r.version}, nil
}

func (*runtime) Status(context.Context, *cri.StatusRequest) (*cri.StatusResponse, error) {
	return &cri.StatusResponse{Info: map[string]string{"config": `{"enableCDI":true}`}}, nil
}

func (*runtime) ListPodSandbox(context.Context, *cri.ListPodSandboxRequest) (*cri.ListPodSandboxResponse, error) {
	return &cri.ListPodSandboxResponse{}, nil
}

func (*runtime) ListContainers(context.Context, *cri.ListContainersRequest) (*cri.ListContainersResponse, error) {
	return &cri.ListContainersResponse{}, nil
}

// startRuntime returns the runtime's endpoint.
func startRuntime(t *testing.T, version string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cri.sock")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, &runtime{version: version})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "unix://" + socket
}

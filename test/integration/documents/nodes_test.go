package documents

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"g8s.host/gpu-scheduler/pkg/agent"
	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// machine is a node of the documents: the cards that it has, and the labels that its administrator gave it before anything of the
// documents was done. All others are those that gpu-agent writes.
type machine struct {
	name, labels string
	cards        int
	product      string
	memoryMiB    int64
	nvlinks      int
	slices       []string // profiles into which its last card is cut
}

// machines have the names and models of the documents. node1 and node2 are in no pool until the mapping's commands put them into one.
var machines = []machine{
	{name: "train-01", labels: "g8s.host/pool=training-pool,g8s.host/gpu-type=A100-100G", cards: 8, product: "NVIDIA A100-SXM4-100GB", memoryMiB: 102400, nvlinks: 12},
	{name: "train-02", labels: "g8s.host/pool=training-pool,g8s.host/gpu-type=A100-100G", cards: 8, product: "NVIDIA A100-SXM4-100GB", memoryMiB: 102400, nvlinks: 12},
	{name: "infer-01", labels: "g8s.host/pool=inference-pool,g8s.host/gpu-type=A100-100G", cards: 4, product: "NVIDIA A100-PCIE-100GB", memoryMiB: 102400},
	{name: "dev-01", labels: "g8s.host/pool=dev-pool,g8s.host/gpu-type=a10-24g", cards: 4, product: "NVIDIA A10", memoryMiB: 23028},
	{name: "node1", cards: 8, product: "NVIDIA A100-SXM4-100GB", memoryMiB: 102400, nvlinks: 12},
	{name: "node2", cards: 8, product: "NVIDIA A800-SXM4-20GB", memoryMiB: 20480, nvlinks: 8},
	{name: "gpu-node-1", labels: "accelerator=nvidia-tesla-v100", cards: 8, product: "Tesla V100-SXM2-32GB", memoryMiB: 32768, nvlinks: 6},
	{name: "gpu-node-2", labels: "accelerator=nvidia-tesla-t4", cards: 4, product: "Tesla T4", memoryMiB: 15360},
	{name: "k80-01", cards: 4, product: "Tesla K80", memoryMiB: 11441},
	{name: "mig-01", cards: 2, product: "NVIDIA A100-SXM4-80GB", memoryMiB: 81920, slices: []string{"1g.10gb", "2g.20gb", "3g.40gb"}},
}

// startNodes makes the machines nodes, as their kubelets would, and runs the agent of each, on one runtime that runs nothing.
func startNodes(ctx context.Context) error {
	dir := filepath.Join(cluster.Dir(), "agents")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	endpoint, err := startRuntime(ctx, filepath.Join(dir, "cri.sock"))
	if err != nil {
		return err
	}
	like, err := client.CoreV1().Nodes().Get(ctx, "cpu-01", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range machines {
		if err := machines[i].register(ctx, like); err != nil {
			return err
		}
		if err := machines[i].startAgent(filepath.Join(dir, machines[i].name), endpoint); err != nil {
			return err
		}
	}
	return wait.PollUntilContextTimeout(ctx, pollEvery, patience, true, func(ctx context.Context) (bool, error) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range nodes.Items {
			told := nodes.Items[i].Annotations[g8s.AnnotationInventory] != ""
			if told != (nodes.Items[i].Labels[g8s.LabelAgent] == g8s.True) || len(nodes.Items[i].Spec.Taints) > 0 {
				return false, nil
			}
		}
		return len(nodes.Items) == 1+len(machines), nil
	})
}

// register makes the node, ready and with what its kubelet offers. It is simulated, and that is said from the beginning, since kwok
// looks after no other.
func (m *machine) register(ctx context.Context, like *corev1.Node) error {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: m.name, Annotations: maps.Clone(like.Annotations), Labels: map[string]string{
			corev1.LabelHostname: m.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64", g8s.LabelAgent: g8s.True}},
		Status: *like.Status.DeepCopy(),
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: m.name}}
	for pair := range strings.SplitSeq(m.labels, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			node.Labels[key] = value
		}
	}
	for name, count := range m.offers() {
		amount := *resource.NewQuantity(count, resource.DecimalSI)
		node.Status.Capacity[name], node.Status.Allocatable[name] = amount, amount
	}
	_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// offers are the resources that kubelet offers for the agent.
func (m *machine) offers() map[corev1.ResourceName]int64 {
	offers := map[corev1.ResourceName]int64{g8s.ResourceGPU: int64(m.cards)}
	if len(m.slices) > 0 {
		offers[g8s.ResourceGPU]--
	}
	for _, profile := range m.slices {
		offers[corev1.ResourceName(g8s.ResourceMIGPrefix+profile)]++
	}
	return offers
}

// hardware is the file of the machine's cards.
func (m *machine) hardware() string {
	var b strings.Builder
	fmt.Fprintf(&b, "count: %d\nproduct: %s\nmemoryMiB: %d\nnvlinks: %d\ncards:\n", m.cards, m.product, m.memoryMiB, m.nvlinks)
	for i := range m.cards {
		fmt.Fprintf(&b, "- index: %d\n  uuid: GPU-%s-%d\n", i, m.name, i)
		if i < m.cards-1 || len(m.slices) == 0 {
			continue
		}
		b.WriteString("  slices:\n")
		for _, profile := range m.slices {
			fmt.Fprintf(&b, "  - {uuid: MIG-%s-%s, profile: %s}\n", m.name, profile, profile)
		}
	}
	return b.String()
}

// startAgent runs until the tests end. Without a kubelet it gives out nothing, and says what there is.
func (m *machine) startAgent(dir, endpoint string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	cards := filepath.Join(dir, "cards.yaml")
	if err := os.WriteFile(cards, []byte(m.hardware()), 0o600); err != nil {
		return err
	}
	library, err := fake.Open(cards)
	if err != nil {
		return err
	}
	options := &agent.Options{
		NodeName: m.name, KubeletDir: filepath.Join(dir, "kubelet"), CDIDir: filepath.Join(dir, "cdi"), RuntimeEndpoint: endpoint,
		Library: library, Unassigned: binding.Refuse, HealthyAfter: time.Second, Log: slog.New(slog.DiscardHandler),
	}
	go func() {
		if err := agent.Run(context.Background(), cluster.RESTConfig(), options); err != nil {
			fmt.Fprintf(os.Stderr, "the agent of %s ended: %v\n", m.name, err)
		}
	}()
	return nil
}

// runtime is a container runtime that runs nothing.
type runtime struct {
	cri.UnimplementedRuntimeServiceServer
}

func (*runtime) Version(context.Context, *cri.VersionRequest) (*cri.VersionResponse, error) {
	return &cri.VersionResponse{RuntimeName: "containerd", RuntimeVersion: "2.2.7"}, nil
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
func startRuntime(ctx context.Context, socket string) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	server := grpc.NewServer()
	cri.RegisterRuntimeServiceServer(server, &runtime{})
	go func() { _ = server.Serve(listener) }()
	return "unix://" + socket, nil
}

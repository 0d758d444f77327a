package realnode

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/manifests"
	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
)

const (
	agentFolder = "agent" // in manifests.FS
	// agentAccount is the service account of the agents in the manifests.
	agentAccount = "gpu-agent"
)

//go:embed assets/cards.yaml
var defaultGPUs []byte

// DefaultGPUs are eight equal GPUs that are linked to each other.
func DefaultGPUs() []byte { return append([]byte(nil), defaultGPUs...) }

// GPUsPath returns the file that gpu-agent reads its GPUs from.
func (n *Node) GPUsPath() string { return filepath.Join(n.dir, "cards.yaml") }

// SetGPUs replaces the GPUs that gpu-agent knows.
func (n *Node) SetGPUs(config []byte) error {
	next := n.GPUsPath() + ".new"
	err := os.WriteFile(next, config, 0o644)
	if err == nil {
		err = os.Rename(next, n.GPUsPath())
	}
	if err != nil {
		return fmt.Errorf("writing the cards: %w", err)
	}
	return nil
}

// installAgent applies manifests/agent and creates the agent's identity: that of its pod on this node. Its DaemonSet requires a label that no node of
// the sandbox has: the process of StartAgent replaces its pod.
func (n *Node) installAgent(ctx context.Context) error {
	if !n.options.Driver {
		if err := n.SetGPUs(n.options.GPUs); err != nil {
			return err
		}
	}
	if err := n.sandbox.ApplyManifests(ctx, manifests.FS, agentFolder); err != nil {
		return err
	}
	node, err := n.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
	if err != nil {
		return err // names the node
	}
	if n.agentKubeconfig, err = n.sandbox.NodeServiceAccountKubeconfig(ctx, metav1.NamespaceSystem, agentAccount, node); err != nil {
		return err
	}
	if n.agentPort, err = sandbox.FreePort("127.0.0.1"); err != nil {
		return err
	}
	n.AgentAddress = "127.0.0.1:" + strconv.Itoa(n.agentPort)
	return nil
}

// SetAgentArgs replaces gpu-agent's additional flags for its next start.
func (n *Node) SetAgentArgs(args ...string) { n.options.AgentArgs = args }

// libraryFlags returns the flags for the source of the agent's GPUs.
func (n *Node) libraryFlags() []string {
	if n.options.Driver {
		return []string{"--nvml=auto"}
	}
	return []string{"--nvml=mock", "--mock-config=" + n.GPUsPath()}
}

// StartAgent starts gpu-agent, again after it was killed, and returns when it runs; kubelet may not know its GPUs by then.
func (n *Node) StartAgent(ctx context.Context) error {
	return n.startAgent(ctx, AgentName, n.agentPort)
}

func (n *Node) startAgent(ctx context.Context, name string, port int) error {
	address := "127.0.0.1:" + strconv.Itoa(port)
	binary := n.programPath(AgentName)
	if _, err := os.Stat(binary); err != nil {
		return fmt.Errorf("finding the agent (run \"make build\" in the repository): %w", err)
	}
	_, err := n.StartProcess(ctx, sandbox.ProcessSpec{
		Name: name, Path: binary, Port: port,
		Args: slices.Concat([]string{
			"--node-name=" + n.Name,
			"--kubeconfig=" + n.agentKubeconfig,
			"--kubelet-dir=" + KubeletDir,
			"--cdi-dir=" + CDIDir,
			"--runtime-endpoint=unix://" + ContainerdSocket,
			"--metrics-address=" + address,
		}, n.libraryFlags(), n.options.AgentArgs),
		Ready: sandbox.HTTPReady("http://" + address + "/healthz"),
	})
	return err
}

// UpgradeAgent replaces gpu-agent twice as a rolling update of its DaemonSet does: the next one is started, and then the one before is told to end.
func (n *Node) UpgradeAgent(ctx context.Context) error {
	const nextName = AgentName + "-next"
	port, err := sandbox.FreePort("127.0.0.1")
	if err != nil {
		return err
	}
	if err := n.startAgent(ctx, nextName, port); err != nil {
		return err
	}
	if err := n.sandbox.FindProcess(AgentName).Stop(); err != nil {
		return err
	}
	if err := n.StartAgent(ctx); err != nil {
		return err
	}
	return n.sandbox.FindProcess(nextName).Stop()
}

// awaitGPUs waits until the cluster knows the node's GPUs: pods for them can be placed.
func (n *Node) awaitGPUs(ctx context.Context) error {
	began := time.Now()
	whole, shared := int64(0), int64(0)
	err := wait.PollUntilContextTimeout(ctx, readyPoll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		node, err := n.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err != nil {
			return false, nil //nolint:nilerror // asked again
		}
		whole, shared = allocatableCount(node, g8s.ResourceGPU), allocatableCount(node, g8s.ResourceSharedGPU)
		return node.Annotations[g8s.AnnotationInventory] != "" && whole+shared > 0, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the cards of node %s since %s: %w", n.Name, time.Since(began).Round(time.Second), err)
	}
	n.sandbox.ReportProgress("gpu-agent is ready: %d cards, %d slots on shared ones", whole, shared)
	return nil
}

func allocatableCount(node *corev1.Node, name corev1.ResourceName) int64 {
	quantity := node.Status.Allocatable[name]
	return quantity.Value()
}

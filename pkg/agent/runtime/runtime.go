// Package runtime asks the container runtime, through the CRI, which pods have not ended. The runtime is authoritative on whether a GPU is still in
// use.
package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// timeout is how long a runtime may take to answer. A stopped one never does.
const timeout = 5 * time.Second

// maxMessage is the most that the runtime may answer with, as kubelet has it.
const maxMessage = 16 << 20

// Labels that kubelet gives to containers.
const (
	labelPod       = "io.kubernetes.pod.uid"
	labelContainer = "io.kubernetes.container.name"
)

// Client talks to the runtime's socket. It connects on first use, and again after the runtime restarted.
type Client struct {
	conn *grpc.ClientConn
	cri  cri.RuntimeServiceClient

	mu       sync.Mutex
	stranded stranded
}

// New returns a client of an endpoint such as unix:///run/containerd/containerd.sock.
func New(endpoint string) (*Client, error) {
	conn, err := grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, fmt.Errorf("connecting to the container runtime at %s: %w", endpoint, err)
	}
	return &Client{conn: conn, cri: cri.NewRuntimeServiceClient(conn)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// LivePods returns the pods that have not ended, with the containers of each that run. A pod counts as long as its sandbox is
// ready or a container of it is not known to have ended: kubelet makes the sandbox before the first container, and stops it
// after the last.
func (c *Client) LivePods(ctx context.Context) (map[types.UID]map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sandboxes, err := c.cri.ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the container runtime for its pods: %w", err)
	}
	containers, err := c.cri.ListContainers(ctx, &cri.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the container runtime for its containers: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var live map[types.UID]map[string]bool
	live, c.stranded = livePods(sandboxes.Items, containers.Containers, c.stranded, time.Now())
	return live, nil
}

// UnfitReason returns why containers of this runtime cannot get GPUs, "" if they can. An error means that it did not answer.
func (c *Client) UnfitReason(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	answer, err := c.cri.Version(ctx, &cri.VersionRequest{})
	if err != nil {
		return "", fmt.Errorf("asking the container runtime for its version: %w", err)
	}
	if reason := tooOldReason(answer.RuntimeName, answer.RuntimeVersion); reason != "" {
		return reason, nil
	}
	status, err := c.cri.Status(ctx, &cri.StatusRequest{Verbose: true})
	if err != nil {
		return "", fmt.Errorf("asking the container runtime for its configuration: %w", err)
	}
	return switchedOff(answer.RuntimeName, status.Info["config"]), nil
}

// oldest are the first versions that give containers the CDI devices of the CRI, and read specs of version 0.6.0: containerd 1.7.0 has a library that
// knows 0.5.0 (its go.mod). containerd 1.6 accepts the names of devices and ignores them.
var oldest = map[string]string{"containerd": "1.7.13", "cri-o": "1.31.0"}

func tooOldReason(name, text string) string {
	want, known := oldest[name]
	if !known {
		return "" // a runtime that we do not know fails where it does not know a device
	}
	have, err := version.ParseGeneric(text)
	if err != nil || have.AtLeast(version.MustParseGeneric(want)) {
		return ""
	}
	return fmt.Sprintf("%s %s does not give containers our CDI devices: want %s or later", name, text, want)
}

// switchedOff reads containerd's answer to a verbose Status.
func switchedOff(name, config string) string {
	var parsed struct{ EnableCDI *bool }
	if name != "containerd" || json.Unmarshal([]byte(config), &parsed) != nil || parsed.EnableCDI == nil || *parsed.EnableCDI {
		return ""
	}
	return "CDI is switched off in containerd, so that containers would start without cards: set enable_cdi = true"
}

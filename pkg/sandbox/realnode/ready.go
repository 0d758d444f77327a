package realnode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/pkg/condition"
)

const (
	readyPoll    = 100 * time.Millisecond
	readyTimeout = time.Minute
	// ContainerdNamespace is where kubelet's images and containers are in containerd.
	ContainerdNamespace = "k8s.io"
)

// importImages gives containerd the images that every node has.
func (n *Node) importImages(ctx context.Context) error {
	probe := n.programPath(probeName)
	for _, image := range []Image{
		{Name: PauseImage, Binary: probe, Args: []string{"pause"}},
		{Name: ProbeImage, Binary: probe},
	} {
		if err := n.ImportImage(ctx, image); err != nil {
			return err
		}
	}
	return nil
}

// ImportImage makes an image and gives it to containerd.
func (n *Node) ImportImage(ctx context.Context, image Image) (err error) {
	program, err := os.ReadFile(image.Binary)
	if err != nil {
		return fmt.Errorf("reading the program of image %s (run \"make build\" in the repository): %w", image.Name, err)
	}
	f, err := os.CreateTemp(n.dir, "image-*.tar")
	if err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	defer func() { _ = os.Remove(f.Name()) }()
	err = writeImage(f, image, program)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("writing image %s: %w", image.Name, err)
	}
	return n.ImportArchive(ctx, f.Name())
}

// ImportArchive gives containerd the images of an archive, such as those of make image.
func (n *Node) ImportArchive(ctx context.Context, path string) error {
	return n.runCtr(ctx, "--namespace", ContainerdNamespace, "images", "import", "--snapshotter", n.settings.snapshotter, path)
}

// runCtr runs containerd's own client on the node.
func (n *Node) runCtr(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, n.toolPath("ctr"), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir}
	err := within(n.init, cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("running ctr %s: %w: %s", args[0], err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// awaitReady waits until the node takes pods, and labels it.
func (n *Node) awaitReady(ctx context.Context) error {
	var node *corev1.Node
	err := wait.PollUntilContextTimeout(ctx, readyPoll, readyTimeout, true, func(ctx context.Context) (bool, error) {
		found, err := n.client.CoreV1().Nodes().Get(ctx, n.Name, metav1.GetOptions{})
		if err == nil {
			node = found
		}
		return err == nil && acceptsPods(found), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for node %s: %w: %s", n.Name, err, notReadyReason(node))
	}
	if err := n.applyLabels(ctx); err != nil {
		return err
	}
	n.sandbox.ReportProgress("real node %s is ready: kubelet %s, %s", n.Name, node.Status.NodeInfo.KubeletVersion, node.Status.NodeInfo.ContainerRuntimeVersion)
	return nil
}

// acceptsPods reports whether a node is ready and accepts pods.
func acceptsPods(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	condition := condition.OfNode(node, corev1.NodeReady)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// notReadyReason is kubelet's message about a node; node is nil if it has not registered.
func notReadyReason(node *corev1.Node) string {
	if node == nil {
		return "it has not registered"
	}
	if condition := condition.OfNode(node, corev1.NodeReady); condition != nil {
		return condition.Message
	}
	return "it has no condition yet"
}

// applyLabels sets the labels of the options.
func (n *Node) applyLabels(ctx context.Context) error {
	if len(n.options.Labels) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": n.options.Labels}})
	if err != nil {
		return fmt.Errorf("labelling node %s: %w", n.Name, err)
	}
	_, err = n.client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("labelling node %s: %w", n.Name, err)
	}
	return nil
}

// chooseSnapshotter returns which of containerd's snapshotters works in a folder: overlays cannot be stacked.
func chooseSnapshotter(dir string) string {
	if isOverlay(filepath.Dir(dir)) {
		return "native"
	}
	return "overlayfs"
}

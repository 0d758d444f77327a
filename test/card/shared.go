package card

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

const (
	sharers  = 3
	shareMiB = 8192
	takenMiB = 4096
	// tooMuchMiB is more than a share.
	tooMuchMiB = 12288
	waves      = 10
	inWave     = 10
)

// share has the cards of the node shared by memory until the test ends.
func (b *bed) share(t *testing.T) {
	t.Helper()
	b.label(t, `"`+g8s.SharingMemory+`"`)
	t.Cleanup(func() {
		b.label(t, "null")
		eventually(t, "whole cards again", func(ctx context.Context) bool { return b.offered(t, g8s.ResourceSharedGPU) == 0 })
	})
	eventually(t, "the slots of shared cards", func(ctx context.Context) bool { return b.offered(t, g8s.ResourceSharedGPU) > 0 })
}

func (b *bed) label(t *testing.T, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, g8s.LabelSharing, value)
	_, err := b.client.CoreV1().Nodes().Patch(context.WithoutCancel(t.Context()), b.node.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// offered is how many of a resource kubelet offers.
func (b *bed) offered(t *testing.T, name string) int64 {
	t.Helper()
	node, err := b.client.CoreV1().Nodes().Get(context.WithoutCancel(t.Context()), b.node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for resource, quantity := range node.Status.Allocatable {
		if string(resource) == name {
			return quantity.Value()
		}
	}
	return 0
}

// showShares: pods share a card, the driver's word on their memory is told of the right pod, and one that takes too much is found.
func showShares(t *testing.T, b *bed) string {
	b.share(t)
	for i := range sharers {
		name := text("share-%d", i)
		b.create(t, withShare(pod(name, "hold", text("%d", takenMiB+i*512), "600"), shareMiB))
		said := b.await(t, name, "hold")
		b.sees(t, name, said)
		if code := said["hold"].Code; code != 0 && !b.mock {
			t.Errorf("%s takes memory with code %d", name, code)
		}
	}
	if b.mock {
		return "not with cards that do not exist"
	}
	var told []string
	for i := range sharers {
		name, used := text("share-%d", i), int64(0)
		eventually(t, "the memory of "+name, func(ctx context.Context) bool {
			used = b.memoryOf(ctx, name)
			return used >= int64(takenMiB+i*512)
		})
		if most := int64(takenMiB + i*512 + 1024); used > most {
			t.Errorf("%s has %d MiB by the agent, want %d at the most", name, used, most)
		}
		told = append(told, text("%d", used))
	}
	began := time.Now()
	b.create(t, withShare(pod("over", "hold", text("%d", tooMuchMiB), "600"), shareMiB))
	if said := b.await(t, "over", "hold"); said["hold"].Code != 0 {
		t.Errorf("without MPS nothing keeps it to its share, and it takes memory with code %d", said["hold"].Code)
	}
	eventually(t, "an event about the pod that takes too much", func(ctx context.Context) bool {
		list, err := b.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=over,reason=GPUShareExceeded"})
		return err == nil && len(list.Items) > 0
	})
	return text("%d pods that took %d MiB and 512 more each use %s MiB by the driver; one over its share was told of %s after it was created",
		sharers, takenMiB, strings.Join(told, ", "), time.Since(began).Round(100*time.Millisecond))
}

// showStarts starts pods one wave after the other, each of which must see the card.
func showStarts(t *testing.T, b *bed) string {
	b.share(t)
	var took []time.Duration
	wrong := 0
	for wave := range waves {
		began := time.Now()
		var names []string
		for i := range inWave {
			name := text("start-%d-%d", wave, i)
			names = append(names, name)
			if _, err := b.client.CoreV1().Pods(namespace).Create(t.Context(), withShare(pod(name, "see"), 1024), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			said := b.await(t, name, "end")
			took = append(took, time.Since(began))
			if uuids, nodes := b.chosen(t, name); !b.mock && seesOnly(said, uuids, nodes) != "" {
				wrong++
				t.Errorf("%s: %s", name, seesOnly(said, uuids, nodes))
			}
		}
		for _, name := range names {
			if err := b.client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	middle, longest := median(took)
	return text("%d starts, %d wrong; a pod of a wave of %d had come to its end after %s (median), %s (longest); PreStartContainer took %s on average",
		len(took), wrong, inWave, middle.Round(10*time.Millisecond), longest.Round(10*time.Millisecond), b.meanStart(t.Context()))
}

// meanStart is how long the agent took for a start.
func (b *bed) meanStart(ctx context.Context) time.Duration {
	for _, metric := range b.metrics(ctx, "gpu_agent_container_start_seconds") {
		if h := metric.GetHistogram(); h.GetSampleCount() > 0 {
			return time.Duration(h.GetSampleSum() / float64(h.GetSampleCount()) * float64(time.Second)).Round(100 * time.Microsecond)
		}
	}
	return 0
}

// showMPS: NVIDIA's MPS keeps a program to its share. Its control daemon runs for this test alone.
func showMPS(t *testing.T, b *bed) string {
	if b.mock {
		return "not with cards that do not exist"
	}
	folder := b.startMPS(t)
	b.restartAgent(t, "--mps-dir="+folder)
	t.Cleanup(func() { b.restartAgent(t) })
	b.share(t)
	var codes []int
	for i, mebibytes := range []int{takenMiB, tooMuchMiB} {
		name := text("mps-%d", i)
		b.create(t, withShare(pod(name, "hold", text("%d", mebibytes), "5"), shareMiB))
		said := b.await(t, name, "hold")
		b.sees(t, name, said)
		codes = append(codes, said["hold"].Code)
	}
	if codes[0] != 0 || codes[1] != codeOutOfMemory {
		t.Errorf("taking %d and %d MiB of %d ends with codes %v, want 0 and %d", takenMiB, tooMuchMiB, shareMiB, codes, codeOutOfMemory)
	}
	return text("of a share of %d MiB, taking %d ends with code %d, taking %d with code %d", shareMiB, takenMiB, codes[0], tooMuchMiB, codes[1])
}

// startMPS starts the control daemon, as docs/agent.md says, and ends it with the test.
func (b *bed) startMPS(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(b.cluster.Dir(), "mps")
	for _, sub := range []string{"pipe", "log"} {
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/dev/shm", filepath.Join(folder, "shm")); err != nil {
		t.Fatal(err)
	}
	control := func(ctx context.Context, stdin string, args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, "nvidia-cuda-mps-control", args...)
		cmd.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY="+filepath.Join(folder, "pipe"), "CUDA_MPS_LOG_DIRECTORY="+filepath.Join(folder, "log"))
		cmd.Stdin = strings.NewReader(stdin)
		return cmd.CombinedOutput()
	}
	if output, err := control(t.Context(), "", "-d"); err != nil {
		t.Fatalf("starting the control daemon of MPS: %v: %s", err, output)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if output, err := control(ctx, "quit\n"); err != nil {
			t.Errorf("ending the control daemon of MPS: %v: %s", err, output)
		}
		if t.Failed() {
			logs, _ := exec.Command("sh", "-c", "tail -n 30 "+filepath.Join(folder, "log", "*")).CombinedOutput()
			t.Logf("MPS says:\n%s", logs)
		}
	})
	return folder
}

// restartAgent starts the agent again with other flags.
func (b *bed) restartAgent(t *testing.T, args ...string) {
	t.Helper()
	if err := b.cluster.FindProcess(realnode.AgentName).Stop(); err != nil {
		t.Error(err)
	}
	b.node.SetAgentArgs(args...)
	if err := b.node.StartAgent(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the cards to be offered again", func(context.Context) bool { return b.offered(t, g8s.ResourceGPU) > 0 })
}

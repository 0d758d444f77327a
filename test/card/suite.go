// Package card shows with a real card, driver, kubelet and containerd that containers see the card that was chosen for them, by the driver's own
// word from inside. It is skipped with the reason on machines without a card. Its tests are no _test.go files, so that
// `make gpu-bundle` can link them into the one program that it takes to such machines. No setting of a card is changed.
package card

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

const (
	pool      = "card-pool"
	namespace = metav1.NamespaceDefault
	// image has the program that asks the driver.
	image = "g8s.host/cuda:1"
	// filesVariable names the folder with that program, cuda, and in lib/ the libraries of glibc that it was linked with.
	filesVariable = "CARD_FILES"
	// mockVariable is set to have cards that do not exist, to try out all that asks no driver.
	mockVariable = "CARD_MOCK"

	patience  = 60 * time.Second
	pollEvery = 50 * time.Millisecond
)

// bed is the cluster, its node and the card.
type bed struct {
	cluster *sandbox.Sandbox
	node    *realnode.Node
	client  kubernetes.Interface
	// mock tells that the cards do not exist.
	mock bool
	// cards are the node's by its inventory, and paths their device nodes by nvidia-smi, by UUID.
	cards []gpu.GPU
	paths map[string]string
	// results are printed as a table at the end.
	results []result
}

type result struct{ name, outcome, said string }

// Suite starts a cluster with a node that has the machine's cards, and shows one thing after the other. It prints a table at the end.
func Suite(t *testing.T) {
	mock := os.Getenv(mockVariable) != ""
	if why := cannot(mock); why != nil {
		t.Skip(why)
	}
	b := &bed{mock: mock}
	b.start(t)
	t.Cleanup(b.print)
	for _, part := range []struct {
		name string
		show func(*testing.T, *bed) string
	}{
		{"inventory", showInventory},
		{"whole card", showWhole},
		{"no card", showNone},
		{"restarts", showRestarts},
		{"fault of a program", showFault},
		{"shared card", showShares},
		{"100 starts", showStarts},
		{"MPS", showMPS},
		{"second plugin", showSecondPlugin},
	} {
		said, began := "", time.Now()
		passed := t.Run(part.name, func(t *testing.T) {
			said = "did not come to its end"
			said = part.show(t, b)
		})
		if said == "" {
			continue // not asked for
		}
		outcome := "ok"
		if !passed {
			outcome = "FAILED"
		}
		b.results = append(b.results, result{part.name, outcome, fmt.Sprintf("%s (%.1fs)", said, time.Since(began).Seconds())})
	}
}

// cannot says why there is nothing to show here.
func cannot(mock bool) error {
	if _, err := os.Stat("/dev/nvidiactl"); err != nil && !mock {
		return fmt.Errorf("no driver of NVIDIA runs on this machine: %w", err)
	}
	if os.Getenv(filesVariable) == "" {
		return fmt.Errorf("%s names no folder with the program that asks the driver: run it as `make gpu-bundle` packs it", filesVariable)
	}
	if err := realnode.Check(os.TempDir()); err != nil {
		return err
	}
	tools, err := sandbox.FindTools()
	if err != nil {
		return err
	}
	return realnode.CheckTools(tools)
}

// start starts what the tests need.
func (b *bed) start(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	b.cluster, err = sandbox.Start(ctx, sandbox.Options{RealKubelets: true, Progress: os.Stdout})
	must(err)
	t.Cleanup(func() {
		b.keepLogs(t)
		if err := b.cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	b.client, err = kubernetes.NewForConfig(b.cluster.RESTConfig())
	must(err)
	must(b.cluster.InstallScheduler(ctx))
	_, err = b.cluster.StartScheduler(ctx, sandbox.SchedulerOptions{})
	must(err)
	options := realnode.Options{Labels: map[string]string{g8s.LabelPool: pool}, Driver: !b.mock}
	if b.mock {
		options.GPUs = []byte("count: 1\nmemoryMiB: 143771\nreservedMiB: 640\n")
	}
	b.node, err = realnode.Start(ctx, b.cluster, options)
	must(err)
	must(b.importProgram(ctx))
	node, err := b.client.CoreV1().Nodes().Get(ctx, b.node.Name, metav1.GetOptions{})
	must(err)
	inventory, err := gpu.ParseInventory(node.Annotations[g8s.AnnotationInventory])
	must(err)
	if b.cards = inventory.GPUs; len(b.cards) == 0 {
		t.Fatal("the node has no whole card")
	}
	b.paths = map[string]string{}
	if b.mock {
		return
	}
	for _, fact := range b.check(t).Facts {
		if fact.Name == "device node" {
			b.paths[fact.Of] = "/dev/nvidia" + fact.SMI
		}
	}
}

// importProgram makes the image with the program that asks the driver, and gives it to containerd.
func (b *bed) importProgram(ctx context.Context) error {
	folder := os.Getenv(filesVariable)
	files := map[string]string{}
	libraries, err := filepath.Glob(filepath.Join(folder, "lib", "*"))
	for _, library := range libraries {
		place := "/usr/lib/x86_64-linux-gnu/"
		if name := filepath.Base(library); name == "ld-linux-x86-64.so.2" {
			place = "/lib64/" // where the program says its loader is
		}
		files[place+filepath.Base(library)] = library
	}
	return errors.Join(err, b.node.ImportImage(ctx, realnode.Image{Name: image, Binary: filepath.Join(folder, "cuda"), Files: files}))
}

// keepLogs copies the logs of the processes to where CARD_LOGS says.
func (b *bed) keepLogs(t *testing.T) {
	folder := os.Getenv("CARD_LOGS")
	if folder == "" {
		return
	}
	if output, err := exec.Command("tar", "-C", filepath.Join(b.cluster.Dir(), "logs"), "-czf", filepath.Join(folder, "logs.tar.gz"), ".").CombinedOutput(); err != nil {
		t.Logf("keeping the logs: %v: %s", err, output)
	}
}

func (b *bed) print() {
	fmt.Fprintln(os.Stdout)
	for _, one := range b.results {
		fmt.Fprintf(os.Stdout, "%-20s %-7s %s\n", one.name, one.outcome, one.said)
	}
}

// eventually waits for something, and returns how long it took.
func eventually(t *testing.T, what string, done func(context.Context) bool) time.Duration {
	t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	for !done(ctx) {
		if ctx.Err() != nil {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
		time.Sleep(pollEvery)
	}
	return time.Since(began)
}

// current reads the node.
func (b *bed) current(t *testing.T) *corev1.Node {
	t.Helper()
	node, err := b.client.CoreV1().Nodes().Get(t.Context(), b.node.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

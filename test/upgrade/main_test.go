// Package upgrade replaces the manifests and programs of another release by those of this tree, and takes them back, while jobs
// and gangs come, run, are evicted and cancelled. The history is held against the promises of placement at every revision:
// nothing is lost, nothing runs twice, no gang stays half. docs/upgrade.md has the figures of make test-upgrade. Without -old
// there is no other release, and the programs are replaced by themselves, as a change of their configuration does.
package upgrade

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/clustertest"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

var (
	oldFolder = flag.String("old", "", "The folder of hack/upgrade.sh with bin and manifests of the other release; without it there is none")
	rest      = flag.Duration("rest", 2*time.Second, "how long the load goes on between two steps")
	kill      = flag.Bool("kill", false, "old programs are killed, as with their nodes, and not told to end")
)

// The cluster, and who administers it.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
)

// pool is that of all nodes: 16 of 8 GPUs.
const pool = "p000"

// nodes have room for what runs at a time and not for much more, so that leaders who disagree would collide.
const nodes = 16

func TestMain(m *testing.M) {
	flag.Parse()
	fleet := clustertest.Pools(1, nodes)
	options := sandbox.Options{ControllerManager: true, Kwok: true, Fleet: &fleet}
	os.Exit(sandboxtest.Main(m, options, func(_ context.Context, s *sandbox.Sandbox) (err error) {
		cluster = s
		client, err = kubernetes.NewForConfig(s.RESTConfig())
		return err
	}))
}

// release is programs and manifests that belong together.
type release struct{ name, bin, manifests string }

// The names of releases, which those of processes end in.
const (
	oldName = "old"
	newName = "new"
)

// releases are the one that is there and the one that comes.
func releases() (before, after release) {
	after = release{name: newName, bin: filepath.Dir(cluster.BinDir()), manifests: "../../manifests"}
	if *oldFolder == "" {
		return release{name: oldName, bin: after.bin, manifests: after.manifests}, after
	}
	return release{name: oldName, bin: filepath.Join(*oldFolder, "bin"), manifests: filepath.Join(*oldFolder, "manifests")}, after
}

// overlay has kubectl install what makes up a whole cluster, with no pods: the test's processes stand in for them.
const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../scheduler, ../controller, ../agent, ../server%s]
replicas: [{name: gpu-scheduler, count: 0}, {name: gpu-controller, count: 0}, {name: gpuctl-server, count: 0}%s]
`

// overlay is that of a release, with the ledger where it has one.
func (r release) overlay() string {
	if !r.hasLedger() {
		return fmt.Sprintf(overlay, "", "")
	}
	return fmt.Sprintf(overlay, ", ../ledger", ", {name: gpu-ledger, count: 0}")
}

func (r release) hasLedger() bool {
	_, err := os.Stat(filepath.Join(r.manifests, "ledger"))
	return err == nil
}

// apply installs the manifests of a release, as docs/upgrade.md says for kubectl.
func (r release) apply(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(r.manifests)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "all"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "all", "kustomization.yaml"), []byte(r.overlay()), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.RunKubectl(t.Context(), "apply", "--server-side", "-k", filepath.Join(folder, "all")); err != nil {
		t.Fatal(err)
	}
}

// gpuctl runs gpuctl of a release as whom a kubeconfig says, and returns all that it prints.
func (r release) gpuctl(ctx context.Context, kubeconfig, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "gpuctl"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cluster.Dir(), "KUBECONFIG=" + kubeconfig}
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("gpuctl %s of the %s release: %w: %s", strings.Join(args, " "), r.name, err, out)
	}
	return string(out), nil
}

// makeCertificate makes the Secret that a program serves with, in a namespace that is there by then.
func makeCertificate(t *testing.T, namespace, program string) {
	t.Helper()
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: program + "-tls"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}
	if _, err := client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

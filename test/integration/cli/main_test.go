// Package cli tests gpuctl against a real API server, without controllers and nodes: what it writes, what it refuses,
// what it takes back, and with which exit code.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// binaries is where `make tools` builds the control plane, seen from this folder.
const binaries = "../../../bin/tools"

// The API server that all tests share, and its administrator.
var (
	server environment
	admin  *rest.Config
	client kubernetes.Interface
)

type environment struct {
	*envtest.Environment
	kubeconfig string
}

func TestMain(m *testing.M) {
	runAsGpuctl()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpuctl's integration tests:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		if _, err := os.Stat(filepath.Join(binaries, name)); err != nil {
			return 1, fmt.Errorf("%s is not built, run: make tools build (%w)", name, err)
		}
	}
	server.Environment = &envtest.Environment{BinaryAssetsDirectory: binaries}
	if admin, err = server.Start(); err != nil {
		return 1, fmt.Errorf("starting the API server: %w", err)
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	folder, err := os.MkdirTemp("", "gpuctl")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	server.kubeconfig = filepath.Join(folder, "admin")
	if err := os.WriteFile(server.kubeconfig, server.KubeConfig, 0o600); err != nil {
		return 1, err
	}
	if client, err = kubernetes.NewForConfig(admin); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

var background = context.Background()

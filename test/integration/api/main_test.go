// Package api tests the REST API against a real API server with controllers, by HTTP. The server runs in this process
// with the identity of its ServiceAccount from manifests/server, so that a missing rule of RBAC fails a test; callers
// have real tokens of real ServiceAccounts.
package api

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/test/sandboxtest"
)

// The cluster that all tests share, its administrator, and what the server connects with.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	own     *rest.Config
	users   map[string]string // tokens by role
)

func TestMain(m *testing.M) {
	os.Exit(sandboxtest.Main(m, sandbox.Options{ControllerManager: true}, prepare))
}

func prepare(ctx context.Context, s *sandbox.Sandbox) (err error) {
	cluster = s
	tools, err := sandbox.FindTools()
	if err != nil {
		return err
	}
	// The server looks for gpu-scheduler there.
	if err := os.Setenv("PATH", filepath.Dir(tools)+string(os.PathListSeparator)+os.Getenv("PATH")); err != nil {
		return err
	}
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return err
	}
	if err := cluster.InstallScheduler(ctx); err != nil { // for the priority classes
		return err
	}
	if err := cluster.InstallServer(ctx); err != nil {
		return err
	}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(ctx, sandbox.ServerNamespace, sandbox.ServerName)
	if err != nil {
		return err
	}
	if own, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	own.QPS = -1
	if users, err = makeUsers(ctx); err != nil {
		return err
	}
	return makeFleet(ctx)
}

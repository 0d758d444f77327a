// Package api tests the REST API against a real API server with controllers, by HTTP. The server runs in this process
// with the identity of its ServiceAccount from manifests/server, so that a missing rule of RBAC fails a test; callers
// have real tokens of real ServiceAccounts.
package api

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// The cluster that all tests share, its administrator, and what the server connects with.
var (
	cluster *sandbox.Sandbox
	client  kubernetes.Interface
	own     *rest.Config
	users   map[string]string // tokens by role
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tests of the REST API:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if cluster, err = sandbox.Start(ctx, sandbox.Options{ControllerManager: true, Progress: os.Stderr}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop()) }()
	if client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return 1, err
	}
	if err := cluster.InstallScheduler(ctx); err != nil { // for the priority classes
		return 1, err
	}
	if err := cluster.InstallServer(ctx); err != nil {
		return 1, err
	}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(ctx, metav1.NamespaceSystem, "gpuctl-server")
	if err != nil {
		return 1, err
	}
	if own, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return 1, err
	}
	own.QPS = -1
	if users, err = makeUsers(ctx); err != nil {
		return 1, err
	}
	if err := makeFleet(ctx); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

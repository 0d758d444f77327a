package sandbox

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"g8s.host/gpu-scheduler/manifests"
)

// ControllerName is the name of gpu-controller's process, of its binary, of its Deployment and of its service account in
// the manifests; manifests/controller is its folder.
const (
	ControllerName   = "gpu-controller"
	controllerFolder = "controller"
)

// ControllerOptions say which gpu-controller to run. The zero value is the one built beside the tools, as the manifests
// have it.
type ControllerOptions struct {
	// Name is the process's name. Default: gpu-controller. A second replica needs another one.
	Name string
	// Binary is the program. Default: gpu-controller in the folder above the tools.
	Binary string
	// Args are more flags.
	Args []string
}

// InstallController applies manifests/controller. Its Deployment is scaled to no replicas: the processes of
// StartController stand in for its pods, for which no image exists here.
func (s *Sandbox) InstallController(ctx context.Context) error {
	if err := s.ApplyManifests(ctx, manifests.FS, controllerFolder); err != nil {
		return err
	}
	client, err := s.client()
	if err != nil {
		return err
	}
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: ControllerName, Namespace: metav1.NamespaceSystem}}
	_, err = client.AppsV1().Deployments(metav1.NamespaceSystem).UpdateScale(ctx, ControllerName, scale, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("scaling the controller's Deployment to 0: %w", err)
	}
	return nil
}

// StartController runs gpu-controller as the service account of the manifests, which InstallController has created, and
// waits until it is ready; with leader election it is not yet the leader then.
func (s *Sandbox) StartController(ctx context.Context, o ControllerOptions) (*Process, error) {
	if o.Name == "" {
		o.Name = ControllerName
	}
	if o.Binary == "" {
		o.Binary = filepath.Join(filepath.Dir(s.options.BinDir), ControllerName)
	}
	if _, err := os.Stat(o.Binary); err != nil {
		return nil, fmt.Errorf("finding the controller (run \"make build\" in the repository): %w", err)
	}
	kubeconfig, err := s.ServiceAccountKubeconfig(ctx, metav1.NamespaceSystem, ControllerName)
	if err != nil {
		return nil, err
	}
	port, err := FreePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	p, err := s.StartProcess(ctx, ProcessSpec{
		Name: o.Name, Path: o.Binary, Port: port,
		Args: append([]string{
			"--kubeconfig=" + kubeconfig,
			"--health-probe-bind-address=127.0.0.1:" + strconv.Itoa(port),
			"--metrics-bind-address=0",
		}, o.Args...),
		Ready: HTTPReady(fmt.Sprintf("http://127.0.0.1:%d/readyz", port)),
	})
	if err != nil {
		return nil, err
	}
	s.Progress("%s is ready", o.Name)
	return p, nil
}

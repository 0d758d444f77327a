package sandbox

import (
	"context"
	"fmt"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ControllerName is the name of gpu-controller's process, of its binary, of its Deployment and of its service account in
// the manifests.
const ControllerName = "gpu-controller"

// controllerComponent comes with what SpotPools need, and simulated machines.
var controllerComponent = component{
	name: ControllerName, namespace: metav1.NamespaceSystem, folders: []string{"controller", "spot", "simulated-cloud"},
	asksCRDs: true,
}

// ControllerOptions say which gpu-controller to run. The zero value is the one built beside the tools, as the manifests
// have it.
type ControllerOptions struct {
	// Name is the process's name. Default: gpu-controller. A second replica needs another one.
	Name string
	// Binary is the program. Default: gpu-controller in the folder above the tools.
	Binary string
	// Args are more flags, and Env more variables, as NAME=VALUE.
	Args, Env []string
}

// InstallController applies manifests/controller, and what SpotPools with simulated machines need, for StartController.
func (s *Sandbox) InstallController(ctx context.Context) error {
	return s.installComponent(ctx, controllerComponent)
}

// StartController runs gpu-controller as the service account of the manifests, which InstallController has created, and
// waits until it is ready; with leader election it is not yet the leader then.
func (s *Sandbox) StartController(ctx context.Context, o ControllerOptions) (*Process, error) {
	if o.Name == "" {
		o.Name = ControllerName
	}
	program, err := s.prepareComponent(ctx, controllerComponent, o.Binary)
	if err != nil {
		return nil, err
	}
	port, err := FreePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	p, err := s.StartProcess(ctx, ProcessSpec{
		Name: o.Name, Path: program.binary, Port: port, Env: o.Env, Restart: s.options.Restart,
		Args: append([]string{
			"--kubeconfig=" + program.kubeconfig,
			"--health-probe-bind-address=127.0.0.1:" + strconv.Itoa(port),
			"--metrics-bind-address=0",
			"--spot-simulated",
		}, o.Args...),
		Ready: HTTPReady(fmt.Sprintf("http://127.0.0.1:%d/readyz", port)),
	})
	if err != nil {
		return nil, err
	}
	s.ReportProgress("%s is ready", o.Name)
	return p, nil
}

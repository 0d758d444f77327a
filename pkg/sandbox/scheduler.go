package sandbox

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

const (
	schedulerFolder = "scheduler" // in manifests.FS
	schedulerConfig = schedulerFolder + "/scheduler-config.yaml"
	// schedulerName is the name of the binary, and of its Deployment and service account in the manifests.
	schedulerName = g8s.SchedulerName

	schedulerPolicy = schedulerFolder + "/score-policy.yaml"
	// mountedPolicy is where the Deployment mounts the policy, and the configuration looks for it.
	mountedPolicy = "/etc/gpu-scheduler-policy/score-policy.yaml"
)

var schedulerComponent = component{name: schedulerName, namespace: metav1.NamespaceSystem, folders: []string{schedulerFolder}}

// SchedulerOptions say which gpu-scheduler to run. The zero value is the one built beside the tools, with the
// configuration of the manifests.
type SchedulerOptions struct {
	// Name is the process's name. Default: gpu-scheduler. A second replica needs another one.
	Name string
	// Binary is the program. Default: gpu-scheduler in the folder above the tools.
	Binary string
	// ConfigPath is a KubeSchedulerConfiguration. Default: manifests/scheduler/scheduler-config.yaml, the
	// file that the ConfigMap is made of.
	ConfigPath string
	// Args are more flags.
	Args []string
	// ReadyTimeout is how long it may take to have listed all there is. Default: a minute.
	ReadyTimeout time.Duration
}

// InstallScheduler applies manifests/scheduler, for StartScheduler.
func (s *Sandbox) InstallScheduler(ctx context.Context) error {
	return s.installComponent(ctx, schedulerComponent)
}

// StartScheduler runs gpu-scheduler as the service account of the manifests, which InstallScheduler has
// created, and waits until it is ready; with leader election it is not yet the leader then.
func (s *Sandbox) StartScheduler(ctx context.Context, o SchedulerOptions) (*Process, error) {
	if o.Name == "" {
		o.Name = schedulerName
	}
	program, err := s.prepareComponent(ctx, schedulerComponent, o.Binary)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(s.dir, o.Name+".yaml")
	if err := s.writePolicy(); err != nil {
		return nil, err
	}
	paths := schedulerPaths{kubeconfig: program.kubeconfig, policy: s.PolicyPath()}
	if err := writeSchedulerConfig(config, o.ConfigPath, paths); err != nil {
		return nil, err
	}
	port, err := FreePort("127.0.0.1")
	if err != nil {
		return nil, err
	}
	p, err := s.StartProcess(ctx, ProcessSpec{
		Name: o.Name, Path: program.binary, Port: port, Restart: s.options.Restart,
		Args: append([]string{
			"--config=" + config,
			"--authentication-kubeconfig=" + program.kubeconfig,
			"--authorization-kubeconfig=" + program.kubeconfig,
			"--bind-address=127.0.0.1",
			"--secure-port=" + strconv.Itoa(port),
			"--cert-dir=" + filepath.Join(s.dir, "certs", o.Name),
		}, o.Args...),
		Ready:        HTTPReady(fmt.Sprintf("https://127.0.0.1:%d/readyz", port)),
		ReadyTimeout: o.ReadyTimeout,
	})
	if err != nil {
		return nil, err
	}
	s.ReportProgress("%s is ready", o.Name)
	return p, nil
}

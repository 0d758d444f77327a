package realnode

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

// Names of the node's processes, and of their logs.
const (
	initName       = "real-node"
	KubeletName    = "kubelet"
	AgentName      = "gpu-agent"
	ContainerdName = "containerd"
	probeName      = "gpu-probe"
)

// DefaultName is the name of the node.
const DefaultName = "real-01"

//go:embed assets/init.sh
var initScript string

// Options configure the node. The zero value is a node without GPUs.
type Options struct {
	// Name is the node's. Default: [DefaultName].
	Name string
	// Labels are set on it by an administrator once it exists: kubelet itself may not set the relevant ones.
	Labels map[string]string
	// GPUs is the file of GPUs that gpu-agent offers though they do not exist, as --mock-config of the agent has it. nil
	// means that no agent runs.
	GPUs []byte
	// Driver has gpu-agent offer the GPUs of the machine's own driver, in place of Cards.
	Driver bool
	// AgentArgs are more flags of gpu-agent.
	AgentArgs []string
}

// Node is a running real node. It ends with its sandbox.
type Node struct {
	// Name is the node's in the cluster.
	Name string
	// AgentAddress is where gpu-agent serves its metrics: host and port.
	AgentAddress string

	sandbox    *sandbox.Sandbox
	client     kubernetes.Interface
	options    Options
	dir        string // all that the node keeps
	init       int    // its first process, as this machine counts
	settings   settings
	kubeconfig string

	agentKubeconfig string
	agentPort       int
}

// Start starts a real node in a sandbox, which must have been started with [sandbox.Options.RealKubelets], and returns
// when pods can run on it. A machine that cannot is an error that wraps [ErrCannot].
func Start(ctx context.Context, s *sandbox.Sandbox, o Options) (*Node, error) {
	if err := Check(s.Dir()); err != nil {
		return nil, err
	}
	if err := CheckTools(s.BinDir()); err != nil {
		return nil, err
	}
	if _, err := os.Stat(s.KubeletClientCA()); err != nil {
		return nil, fmt.Errorf("starting the real node: the sandbox was not started for real kubelets: %w", err)
	}
	o.Name = cmp.Or(o.Name, DefaultName)
	client, err := kubernetes.NewForConfig(s.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("creating a client: %w", err)
	}
	n := &Node{Name: o.Name, sandbox: s, client: client, options: o, dir: filepath.Join(s.Dir(), "node")}
	steps := []func(context.Context) error{
		n.prepareNode, n.startInit, n.StartContainerd, n.importImages, n.StartKubelet, n.awaitReady,
	}
	if o.GPUs != nil || o.Driver {
		steps = append(steps, n.installAgent, n.StartAgent, n.awaitGPUs)
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("starting the real node: %w", err)
		}
	}
	return n, nil
}

// Check checks whether a real node can run on this machine, in a sandbox whose folder is dir.
func Check(dir string) error {
	if err := InspectMachine().CheckSupport(); err != nil {
		return err
	}
	for _, hidden := range []string{"/run", "/var/run", "/var/lib", "/var/log"} {
		if dir == hidden || strings.HasPrefix(dir, hidden+"/") {
			return fmt.Errorf("starting a real node: the sandbox's folder %s is in %s, of which the node has its own: put it elsewhere", dir, hidden)
		}
	}
	return nil
}

// prepareNode makes the node's folder, configuration, identity and cgroup.
func (n *Node) prepareNode(context.Context) (err error) {
	cni := filepath.Join(n.dir, "cni")
	if err := os.MkdirAll(cni, 0o755); err != nil {
		return fmt.Errorf("making the node's folder: %w", err)
	}
	address, err := nodeAddress()
	if err != nil {
		return err
	}
	n.settings = settings{
		binDir: n.sandbox.BinDir(), cniDir: cni, volumePluginDir: filepath.Join(n.dir, "volume-plugins"),
		clientCA: n.sandbox.KubeletClientCA(), cgroup: "gpu-sandbox-" + sha256Hex([]byte(n.sandbox.Dir()))[:12],
		snapshotter: chooseSnapshotter(n.dir), address: address.String(),
	}
	if n.settings.port, err = sandbox.FreePort(address.String()); err != nil {
		return err
	}
	if n.settings.healthPort, err = sandbox.FreePort("127.0.0.1"); err != nil {
		return err
	}
	if n.kubeconfig, err = n.sandbox.UserKubeconfig(KubeletName, "system:node:"+n.Name, "system:nodes"); err != nil {
		return err
	}
	if err := n.writeConfigs(); err != nil {
		return err
	}
	groups, err := findCgroups(cgroupRoot)
	if err != nil {
		return err
	}
	if err := n.sandbox.RemoveCgroupAtEnd(n.settings.cgroup); err != nil {
		return err
	}
	return groups.createCgroup(n.settings.cgroup)
}

func (n *Node) writeConfigs() error {
	containerd, err := containerdConfig(n.settings)
	if err != nil {
		return err
	}
	kubelet, err := kubeletConfig(n.settings)
	if err != nil {
		return err
	}
	cni, err := cniConfig(n.settings, filepath.Join(n.dir, "cni-state"))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"containerd.toml": containerd, "kubelet.yaml": kubelet, "cni/real-node.conflist": cni,
	} {
		if err := os.WriteFile(filepath.Join(n.dir, name), data, 0o600); err != nil {
			return fmt.Errorf("writing the node's configuration: %w", err)
		}
	}
	return nil
}

// startInit starts the first process of the node's namespaces. It records itself for the watchdog: with its end the node
// ends.
func (n *Node) startInit(ctx context.Context) error {
	p, err := n.sandbox.StartProcess(ctx, sandbox.ProcessSpec{
		Name: initName, Path: "/bin/sh", Start: startWithNamespaces,
		Args: []string{
			"-c", initScript, initName, n.dir, n.sandbox.PIDFile(initName),
			n.programPath(probeName), "pause", n.dir, // the folder identifies it as the sandbox's, see sandbox.Clean
		},
		Ready: func(context.Context) error {
			_, err := os.Stat(filepath.Join(n.dir, "mounted"))
			return err
		},
	})
	if err != nil {
		return err
	}
	n.init = p.PID()
	return nil
}

// StartContainerd starts containerd, again after it was killed: containers outlive it.
func (n *Node) StartContainerd(ctx context.Context) error {
	_, err := n.StartProcess(ctx, sandbox.ProcessSpec{
		Name: ContainerdName, Path: n.toolPath(ContainerdName),
		Args:  []string{"--config", filepath.Join(n.dir, "containerd.toml")},
		Ready: func(ctx context.Context) error { return n.runCtr(ctx, "version") },
	})
	return err
}

// StartKubelet starts kubelet, again after it was killed: pods outlive it.
func (n *Node) StartKubelet(ctx context.Context) error {
	_, err := n.StartProcess(ctx, sandbox.ProcessSpec{
		Name: KubeletName, Path: n.toolPath(KubeletName), Port: n.settings.port,
		Args: []string{
			"--config=" + filepath.Join(n.dir, "kubelet.yaml"),
			"--kubeconfig=" + n.kubeconfig,
			"--hostname-override=" + n.Name,
			"--cert-dir=" + KubeletDir + "/pki",
			"--v=2",
		},
		Ready: sandbox.HTTPReady(fmt.Sprintf("http://127.0.0.1:%d/healthz", n.settings.healthPort)),
	})
	return err
}

// StartProcess runs a program on the node: in its namespaces, with its view of files.
func (n *Node) StartProcess(ctx context.Context, spec sandbox.ProcessSpec) (*sandbox.Process, error) {
	spec.Start = func(cmd *exec.Cmd) error { return within(n.init, cmd.Start) }
	return n.sandbox.StartProcess(ctx, spec)
}

// HostPath returns where a file of the node is on this machine. Symbolic links of the node do not resolve: use /run, not /var/run.
func (n *Node) HostPath(path string) string {
	return filepath.Join("/proc", strconv.Itoa(n.init), "root", path)
}

// SetBootID gives the node another boot ID, as a restart of the machine does, for programs that start from now on.
func (n *Node) SetBootID(id string) error {
	// Written in place, because the mount is of this file, not of its name.
	if err := os.WriteFile(filepath.Join(n.dir, "boot_id"), []byte(id+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing the node's boot: %w", err)
	}
	return nil
}

func (n *Node) toolPath(name string) string { return filepath.Join(n.settings.binDir, name) }

// programPath returns the path of a program of ours: they lie above the tools.
func (n *Node) programPath(name string) string {
	return filepath.Join(filepath.Dir(n.sandbox.BinDir()), name)
}

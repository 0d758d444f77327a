// Package command is the command line of gpu-agent.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"g8s.host/gpu-scheduler/pkg/agent"
	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/nvml"
	"g8s.host/gpu-scheduler/pkg/program"
)

type options struct {
	agent                                       agent.Options
	kubeconfig, nvml, mockConfig                string
	driverRoot, unassigned, overruns, logFormat string
	mode                                        string // serve or report
}

// Main runs the program and returns its exit code.
func Main() int { return program.Main(New()) }

// New returns the command.
func New() *cobra.Command {
	o := &options{}
	cmd := program.New(&cobra.Command{
		Use:   "gpu-agent",
		Short: "Give containers the cards that gpu-scheduler chose",
		Long: "Give containers of this node the cards that gpu-scheduler chose for their pods, and tell the cluster which cards\n" +
			"there are and how they are. It runs as root on every node with GPUs, beside kubelet.",
		RunE: func(cmd *cobra.Command, _ []string) error { return runAgent(cmd.Context(), o, cmd.ErrOrStderr()) },
	})
	flags := cmd.Flags()
	flags.StringVar(&o.agent.NodeName, "node-name", os.Getenv("NODE_NAME"), "Name of this node; the environment's NODE_NAME without it")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "Kubeconfig of the agent's own identity; without it that of its pod")
	flags.StringVar(&o.agent.KubeletDir, "kubelet-dir", "/var/lib/kubelet", "Folder of kubelet, with device-plugins and pod-resources")
	flags.StringVar(&o.agent.PodResourcesSocket, "pod-resources-socket", "", "Socket to serve kubelet's PodResources at, with cards in the place of slots")
	flags.StringVar(&o.agent.CDIDir, "cdi-dir", "/var/run/cdi", "Folder of CDI specs that the container runtime watches")
	o.addHardwareFlags(flags)
	flags.StringVar(&o.mode, "mode", string(agent.Serve), "serve, or report to tell of cards and their health alone, where another device plugin gives them out")
	flags.IntVar(&o.agent.SlotsPerGPU, "slots-per-card", 24, "How many containers can share a card at the most, on nodes labelled g8s.host/gpu-sharing=memory")
	flags.StringVar(&o.overruns, "overruns", string(agent.Warn), "What becomes of pods that use more of a card than their share: warn, or end to kill the process with the most memory")
	flags.DurationVar(&o.agent.HealthyAfter, "healthy-after", 10*time.Minute, "How long a card must be well before it is given out again")
	flags.StringVar(&o.unassigned, "unassigned", string(binding.Refuse), "What becomes of pods that another scheduler placed: refuse, or free to give them free cards")
	flags.StringVar(&o.agent.InterruptionURL, "interruption-url", "", "Where the cloud of this machine says when it takes the machine back, which is written on the node; docs/spot.md")
	flags.StringVar(&o.agent.MetricsAddress, "metrics-address", "", "Address for /metrics and /healthz, such as :10262")
	flags.StringVar(&o.logFormat, "log-format", "json", "json or text")
	cmd.AddCommand(newCheckCommand(&options{}))
	return cmd
}

// addHardwareFlags adds the flags for the source of the GPUs, the container runtime, and MPS.
func (o *options) addHardwareFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.agent.RuntimeEndpoint, "runtime-endpoint", "unix:///run/containerd/containerd.sock", "Socket of the container runtime")
	flags.StringVar(&o.nvml, "nvml", "auto", "auto for NVIDIA's driver, mock for the cards of --mock-config")
	flags.StringVar(&o.driverRoot, "driver-root", "/", "Folder below which NVIDIA's driver is installed, where the host is seen elsewhere than at /")
	flags.StringVar(&o.mockConfig, "mock-config", "", "File with cards that do not exist, read again when it changes")
	flags.StringVar(&o.agent.MPS.Folder, "mps-dir", "", "Folder on the node with the pipes (pipe) and the shared memory (shm) of NVIDIA's MPS control daemon, which then keeps containers to their shares")
}

func runAgent(ctx context.Context, o *options, stderr io.Writer) error {
	if err := o.completeFlags(stderr); err != nil {
		return err
	}
	library, err := o.openLibrary()
	if err != nil {
		return err
	}
	o.agent.Library = library
	config, err := program.RESTConfig(o.kubeconfig, "gpu-agent")
	if err != nil {
		return err
	}
	o.agent.Log.Info("Starting", "version", program.Version(), "node", o.agent.NodeName, "library", o.agent.Library.Version())
	if err := agent.Run(ctx, config, &o.agent); ctx.Err() == nil {
		return err
	}
	return nil // it was asked to stop
}

// completeFlags checks the flags.
func (o *options) completeFlags(stderr io.Writer) error {
	log, err := program.NewLogger(o.logFormat, stderr)
	if err != nil {
		return err
	}
	o.agent.Log = log
	o.agent.MPS.HostRoot = o.driverRoot
	if err := o.readWords(); err != nil {
		return err
	}
	switch {
	case o.agent.NodeName == "":
		return errors.New("--node-name is missing: give the name of this node")
	case o.agent.HealthyAfter < 0:
		return fmt.Errorf("--healthy-after is %s, want 0 or more", o.agent.HealthyAfter)
	case o.agent.InterruptionURL != "" && !isURL(o.agent.InterruptionURL):
		return fmt.Errorf("--interruption-url is %q, want one such as http://metadata.tencentyun.com/latest/meta-data/spot/termination-time", o.agent.InterruptionURL)
	case o.agent.SlotsPerGPU < 1 || o.agent.SlotsPerGPU > agent.MaxSlotsPerGPU:
		return fmt.Errorf("--slots-per-card is %d, want 1 to %d", o.agent.SlotsPerGPU, agent.MaxSlotsPerGPU)
	}
	return nil
}

// readWords reads the flags that have one of two words.
func (o *options) readWords() error {
	o.agent.Mode, o.agent.Unassigned, o.agent.Overruns = agent.Mode(o.mode), binding.Policy(o.unassigned), agent.OverrunPolicy(o.overruns)
	switch {
	case o.agent.Mode != agent.Serve && o.agent.Mode != agent.Report:
		return fmt.Errorf("--mode is %q, want %s or %s", o.mode, agent.Serve, agent.Report)
	case o.agent.Unassigned != binding.Refuse && o.agent.Unassigned != binding.GiveFree:
		return fmt.Errorf("--unassigned is %q, want %s or %s", o.unassigned, binding.Refuse, binding.GiveFree)
	case o.agent.Overruns != agent.Warn && o.agent.Overruns != agent.End:
		return fmt.Errorf("--overruns is %q, want %s or %s", o.overruns, agent.Warn, agent.End)
	}
	return nil
}

func isURL(text string) bool {
	address, err := url.Parse(text)
	return err == nil && (address.Scheme == "http" || address.Scheme == "https") && address.Host != ""
}

func (o *options) openLibrary() (hardware.Library, error) {
	switch {
	case o.nvml != "mock" && o.nvml != "auto":
		return nil, fmt.Errorf("--nvml is %q, want auto or mock", o.nvml)
	case o.nvml == "mock" && o.mockConfig == "":
		return nil, errors.New("--nvml=mock needs --mock-config")
	case o.nvml == "auto" && o.mockConfig != "":
		return nil, errors.New("--mock-config is for --nvml=mock")
	case o.nvml == "mock":
		return fake.Open(o.mockConfig)
	}
	return nvml.Open(o.driverRoot)
}

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// upOptions are the flags of up, and of run, which up calls with the same.
type upOptions struct {
	location   *location
	nodes      int
	fleetPath  string
	schedulers int
	noSched    bool
	api        bool
	hostExec   bool
	realNode   bool
	foreground bool
}

func newUpCmd(p *location) *cobra.Command {
	o := &upOptions{location: p}
	cmd := &cobra.Command{
		Use:     "up",
		Short:   "Start a cluster and leave it running",
		Example: "  gpu-sandbox up --nodes 1000\n  eval \"$(gpu-sandbox env)\"",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.foreground {
				return o.runForeground(cmd)
			}
			return o.startSandbox(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	o.addFlags(cmd)
	cmd.Flags().BoolVar(&o.foreground, "foreground", false, "Stay in the foreground, and stop the cluster at the end")
	return cmd
}

func (o *upOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().IntVar(&o.nodes, "nodes", 0, "Scale the fleet to this number of nodes (default: as the fleet says; 64 without --fleet)")
	cmd.Flags().StringVar(&o.fleetPath, "fleet", "", "File that describes the nodes")
	cmd.Flags().IntVar(&o.schedulers, "schedulers", 2, "Number of gpu-scheduler replicas, of which one leads")
	cmd.Flags().BoolVar(&o.noSched, "no-scheduler", false, "Install and run no gpu-scheduler, no gpu-controller and no gpu-ledger")
	cmd.Flags().BoolVar(&o.api, "api", false, "Run gpuctl-server, the REST API and the console, too")
	cmd.Flags().BoolVar(&o.realNode, "real-node", false, "Run a real node too: kubelet, containerd and gpu-agent with cards that do not exist; needs root")
	cmd.Flags().BoolVar(&o.hostExec, "host-exec", false, "Let `kubectl exec` run commands on THIS machine; anybody with an account on it could")
}

// readFleet reads the fleet that the flags ask for.
func (o *upOptions) readFleet() (sandbox.Fleet, error) {
	fleet := sandbox.DefaultFleet()
	if o.fleetPath != "" {
		data, err := os.ReadFile(o.fleetPath)
		if err != nil {
			return fleet, fmt.Errorf("reading the fleet: %w", err)
		}
		if fleet, err = sandbox.ParseFleet(data); err != nil {
			return fleet, fmt.Errorf("%s: %w", o.fleetPath, err)
		}
	}
	if o.nodes == 0 {
		return fleet, o.checkDistinctNames(fleet)
	}
	fleet, err := fleet.Scale(o.nodes)
	return fleet, errors.Join(err, o.checkDistinctNames(fleet))
}

// checkDistinctNames returns an error when a simulated node has the name of the real one.
func (o *upOptions) checkDistinctNames(fleet sandbox.Fleet) error {
	if !o.realNode {
		return nil
	}
	for _, node := range fleet.Nodes(time.Now(), 0) {
		if node.Name == realnode.DefaultName {
			return fmt.Errorf("reading --fleet: a simulated node would be called %s, as the one of --real-node is", node.Name)
		}
	}
	return nil
}

// startSandbox starts the supervisor and follows it until the cluster is ready.
func (o *upOptions) startSandbox(ctx context.Context, stdout, stderr io.Writer) error {
	if _, err := o.readFleet(); err != nil {
		return err // before anything is started
	}
	if o.schedulers < 1 {
		return fmt.Errorf("reading --schedulers: %d is not at least 1; use --no-scheduler for none", o.schedulers)
	}
	if o.realNode {
		if err := errors.Join(realnode.Check(o.location.sandboxDir()), checkTools()); err != nil {
			return err
		}
	}
	lock, err := o.location.acquireLock()
	if errors.Is(err, errLocked) {
		return o.alreadyUp(ctx, stdout, stderr)
	}
	if err != nil {
		return err
	}
	if o.location.directoryExists() {
		fmt.Fprintln(stderr, "removing what a killed sandbox left")
		if err := sandbox.Clean(o.location.sandboxDir()); err != nil {
			return errors.Join(err, o.location.releaseLock(lock))
		}
	}
	if err := o.location.releaseLock(lock); err != nil { // the supervisor takes it
		return err
	}
	if err := o.startSupervisor(ctx, stderr); err != nil {
		return err
	}
	return o.announceCluster(stdout, stderr)
}

// alreadyUp waits for a cluster that another up started.
func (o *upOptions) alreadyUp(ctx context.Context, stdout, stderr io.Writer) error {
	fmt.Fprintf(stderr, "sandbox %q is running already: %s ends it\n", o.location.name, o.location.commandText("down"))
	for {
		st, err := o.location.readState()
		if err == nil && st.Ready {
			if err := o.checkMissing(st); err != nil {
				return err
			}
			return o.announceCluster(stdout, stderr)
		}
		if errors.Is(err, errDown) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the sandbox to start: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// checkMissing returns an error if a running cluster lacks something that the flags request, and describes how to get it.
func (o *upOptions) checkMissing(st state) error {
	var flags []string
	if o.api && !slices.ContainsFunc(st.Components, func(c component) bool { return c.Name == sandbox.ServerName }) {
		flags = append(flags, "--api")
	}
	if o.hostExec && !st.HostExec {
		flags = append(flags, "--host-exec")
	}
	if o.realNode && !slices.ContainsFunc(st.Components, func(c component) bool { return c.Name == realnode.KubeletName }) {
		flags = append(flags, "--real-node")
	}
	if len(flags) == 0 {
		return nil
	}
	asked := strings.Join(flags, " ")
	return fmt.Errorf("sandbox %q runs without %s, which cannot be added to it: %s, then %s",
		o.location.name, asked, o.location.commandText("down"), o.location.commandText("up "+asked))
}

// announceCluster prints the kubeconfig's path, alone on standard output, and how to use it.
func (o *upOptions) announceCluster(stdout, stderr io.Writer) error {
	st, err := o.location.readState()
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, st.Kubeconfig)
	fmt.Fprintf(stderr, "\nThe cluster runs until %s. Use it with\n\n", o.location.commandText("down"))
	writeExports(stderr, st, "  ")
	writeConsole(stderr, st)
	return nil
}

// startSupervisor starts the supervisor as a process of its own session and copies its progress until the start is done. If the pipe ends without a state,
// the start failed, and the last lines are the reason.
func (o *upOptions) startSupervisor(ctx context.Context, stderr io.Writer) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("creating the supervisor's pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	log, err := os.OpenFile(o.location.logPath(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return errors.Join(fmt.Errorf("opening the supervisor's log: %w", err), write.Close())
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(self, o.runArgs()...)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := errors.Join(cmd.Start(), write.Close()); err != nil {
		return fmt.Errorf("starting the supervisor: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	if _, err := io.Copy(stderr, read); err != nil {
		return fmt.Errorf("following the supervisor: %w", err)
	}
	if _, err := o.location.readState(); err != nil {
		return fmt.Errorf("sandbox %q did not start (its log is %s)", o.location.name, o.location.logPath())
	}
	return nil
}

func (o *upOptions) runArgs() []string {
	return []string{
		"run", "--dir", o.location.root, "--name", o.location.name,
		"--nodes", strconv.Itoa(o.nodes), "--fleet", o.fleetPath, "--schedulers", strconv.Itoa(o.schedulers),
		"--no-scheduler=" + strconv.FormatBool(o.noSched), "--host-exec=" + strconv.FormatBool(o.hostExec),
		"--api=" + strconv.FormatBool(o.api), "--real-node=" + strconv.FormatBool(o.realNode),
	}
}

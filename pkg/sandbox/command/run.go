package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/sandbox"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// realPool is the pool of the real node.
const realPool = "real-pool"

// progressFD is the file descriptor on which the supervisor reports the progress of the start to `up`.
const progressFD = 3

// newRunCmd is the supervisor that up starts in the background.
func newRunCmd(p *location) *cobra.Command {
	o := &upOptions{location: p}
	cmd := &cobra.Command{
		Use:    "run",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			syscall.CloseOnExec(progressFD) // else the children keep the pipe open, and up waits for them
			progress := os.NewFile(progressFD, "progress")
			if progress == nil {
				return errors.New("this command is for `gpu-sandbox up`, which it reports to")
			}
			err := o.runCluster(cmd.Context(), progress, progress.Close)
			if err != nil {
				fmt.Fprintln(progress, "Error:", err) // closed already when the error came later
			}
			return err
		},
	}
	o.addFlags(cmd)
	return cmd
}

// runForeground owns the cluster in this process until it is interrupted.
func (o *upOptions) runForeground(cmd *cobra.Command) error {
	return o.runCluster(cmd.Context(), cmd.ErrOrStderr(), func() error {
		return o.announceCluster(cmd.OutOrStdout(), cmd.ErrOrStderr())
	})
}

// runCluster owns a cluster until ctx ends. ready is called once, when all of it works.
func (o *upOptions) runCluster(ctx context.Context, progress io.Writer, ready func() error) (err error) {
	lock, err := o.location.acquireLock()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.location.releaseLock(lock)) }()
	if err := writeOwner(lock); err != nil {
		return err
	}
	fleet, err := o.readFleet()
	if err != nil {
		return err
	}
	options := sandbox.FullOptions()
	options.Dir, options.Progress, options.Fleet, options.HostExec = o.location.sandboxDir(), progress, &fleet, o.hostExec
	options.RealKubelets = o.realNode
	s, err := sandbox.Start(ctx, options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	if err := o.startSchedulers(ctx, s); err != nil {
		return err
	}
	if err := o.startController(ctx, s); err != nil {
		return err
	}
	ledger, err := o.startLedger(ctx, s)
	if err != nil {
		return err
	}
	if err := o.startServer(ctx, s, ledger); err != nil {
		return err
	}
	if err := o.startRealNode(ctx, s); err != nil {
		return err
	}
	crashes := map[string]string{}
	if err := o.writeState(s, ledger, crashes); err != nil {
		return err
	}
	if err := ready(); err != nil {
		return err
	}
	return o.watchCrashes(ctx, s, ledger, crashes)
}

// writeState writes down what runs; ledger is nil where there is none.
func (o *upOptions) writeState(s *sandbox.Sandbox, ledger *sandbox.Ledger, crashes map[string]string) error {
	st := describeState(s, crashes)
	st.HostExec = o.hostExec
	if ledger != nil {
		st.Ledger, st.LedgerCA = ledger.URL, ledger.CAFile
	}
	return o.location.writeState(st)
}

func (o *upOptions) startSchedulers(ctx context.Context, s *sandbox.Sandbox) error {
	if o.noSched {
		return nil
	}
	if err := s.InstallScheduler(ctx); err != nil {
		return err
	}
	for i := range o.schedulers {
		options := sandbox.SchedulerOptions{}
		if i > 0 {
			options.Name = fmt.Sprintf("gpu-scheduler-%d", i+1)
		}
		if _, err := s.StartScheduler(ctx, options); err != nil {
			return err
		}
	}
	return nil
}

// ControllerArgs are the arguments that differ from those of the manifests. A kubelet that is stopped here takes its pods with it: silence proves
// that they do not run.
func ControllerArgs() []string { return []string{"--out-of-service-after=40s"} }

// startController runs only with the scheduler, whose jobs it manages.
func (o *upOptions) startController(ctx context.Context, s *sandbox.Sandbox) error {
	if o.noSched {
		return nil
	}
	if err := s.InstallController(ctx); err != nil {
		return err
	}
	_, err := s.StartController(ctx, sandbox.ControllerOptions{Args: ControllerArgs()})
	return err
}

// startLedger runs only with the scheduler, too: it records what the scheduler places.
func (o *upOptions) startLedger(ctx context.Context, s *sandbox.Sandbox) (*sandbox.Ledger, error) {
	if o.noSched {
		return nil, nil
	}
	if err := s.InstallLedger(ctx); err != nil {
		return nil, err
	}
	ledger, err := s.StartLedger(ctx, sandbox.LedgerOptions{})
	if err != nil {
		return nil, err
	}
	return ledger, s.AnnounceLedger(ctx, ledger)
}

// startServer runs the REST API, which asks the ledger where there is one.
func (o *upOptions) startServer(ctx context.Context, s *sandbox.Sandbox, ledger *sandbox.Ledger) error {
	if !o.api {
		return nil
	}
	options := sandbox.ServerOptions{}
	if ledger != nil {
		options.Args = []string{"--ledger=" + ledger.URL, "--ledger-ca=" + ledger.CAFile}
	}
	if err := s.InstallServer(ctx); err != nil {
		return err
	}
	if _, err := s.StartServer(ctx, options); err != nil {
		return err
	}
	return s.CreateConsoleAccount(ctx)
}

func (o *upOptions) startRealNode(ctx context.Context, s *sandbox.Sandbox) error {
	if !o.realNode {
		return nil
	}
	_, err := realnode.Start(ctx, s, realnode.Options{
		Labels: map[string]string{g8s.LabelPool: realPool}, GPUs: realnode.DefaultGPUs(),
	})
	return err
}

// watchCrashes writes crashes into the state until ctx ends. It leaves a cluster with a crashed part running, so that its owner can examine it.
func (o *upOptions) watchCrashes(ctx context.Context, s *sandbox.Sandbox, ledger *sandbox.Ledger, crashes map[string]string) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.Err():
			fmt.Fprintf(os.Stderr, "%s %v\n", time.Now().Format(time.RFC3339), err)
			var exit *sandbox.ExitError
			if errors.As(err, &exit) {
				crashes[exit.Name] = exit.Reason
			}
			if err := o.writeState(s, ledger, crashes); err != nil {
				return err
			}
		}
	}
}

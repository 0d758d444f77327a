package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"g8s.host/gpu-scheduler/pkg/sandbox"
)

const (
	downTimeout     = time.Minute
	watchdogTimeout = 5 * time.Second
	downPoll        = 50 * time.Millisecond
)

func newDownCmd(p *location) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop a cluster and remove everything of it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stopSandbox(cmd.Context(), p, cmd.ErrOrStderr())
		},
	}
}

// stopSandbox ends the supervisor, which takes its cluster with it, and then removes the leftovers of a killed one.
func stopSandbox(ctx context.Context, p *location, stderr io.Writer) error {
	lock, err := p.acquireLock()
	running := errors.Is(err, errLocked)
	if running {
		fmt.Fprintf(stderr, "stopping sandbox %q\n", p.name)
		lock, err = endOwner(ctx, p)
	}
	if err != nil {
		return err
	}
	left := p.directoryExists()
	if err := errors.Join(removeLeft(ctx, p), p.releaseLock(lock)); err != nil {
		return fmt.Errorf("removing sandbox %q: %w", p.name, err)
	}
	switch {
	case running:
		fmt.Fprintf(stderr, "sandbox %q is gone\n", p.name)
	case left:
		fmt.Fprintf(stderr, "sandbox %q had been killed; what it left is gone\n", p.name)
	default:
		fmt.Fprintf(stderr, "sandbox %q is not running\n", p.name)
	}
	return nil
}

// endOwner asks the supervisor to end until the lock is free, and returns the lock.
func endOwner(ctx context.Context, p *location) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, downTimeout)
	defer cancel()
	asked := 0
	for {
		lock, err := p.acquireLock()
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		// The lock is held, so the id in it is its holder's, or not yet written.
		if pid, err := p.readOwner(); err == nil && pid != asked {
			if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nil, fmt.Errorf("ending the supervisor, process %d: %w", pid, err)
			}
			asked = pid
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for the supervisor, process %d, to end: %w", asked, ctx.Err())
		case <-time.After(downPoll):
		}
	}
}

// removeLeft waits for the watchdog of a killed supervisor, and cleans up itself if the watchdog is gone too.
func removeLeft(ctx context.Context, p *location) error {
	for wait := watchdogTimeout; p.directoryExists() && wait > 0 && ctx.Err() == nil; wait -= downPoll {
		time.Sleep(downPoll)
	}
	if p.directoryExists() {
		if err := sandbox.Clean(p.sandboxDir()); err != nil {
			return err
		}
	}
	if err := os.Remove(p.logPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

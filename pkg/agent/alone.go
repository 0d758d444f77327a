package agent

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockFile is beside the CDI specs, which two agents must not write at once. The runtime does not read it.
const lockFile = ".g8s.host-agent.lock"

// alone waits until no other agent runs on the node, such as the one that this one replaces. The kernel gives the lock back
// when the process ends, however it ends.
func alone(ctx context.Context, dir string, log *slog.Logger) (release func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking out other agents: %w", err)
	}
	for told := false; ; told = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = file.Close() }, nil
		case err != syscall.EWOULDBLOCK:
			_ = file.Close()
			return nil, fmt.Errorf("locking out other agents: %w", err)
		case !told:
			log.Info("Waiting for the agent that runs on this node to end", "lock", file.Name())
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

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

// lockCheckInterval is the interval at which the lock is compared with the file that other agents find.
const lockCheckInterval = 5 * time.Second

// lockRetryDelay is the interval at which an agent that stands by tries to get a lock.
const lockRetryDelay = 100 * time.Millisecond

// lock keeps other agents out.
type lock struct {
	file *os.File
	// root is the mount of the file's folder when it was locked.
	root string
}

// acquireNodeLock waits until no other agent runs on the node, such as the one that this one replaces. The kernel releases the lock when the process ends, in
// whatever way.
func acquireNodeLock(ctx context.Context, dir string, log *slog.Logger) (*lock, error) {
	file, _, err := acquireFile(ctx, filepath.Join(dir, lockFile), log)
	if err != nil {
		return nil, err
	}
	return openLock(file)
}

// acquireFile waits until no other process has locked a file. It reports whether one had.
func acquireFile(ctx context.Context, path string, log *slog.Logger) (file *os.File, waited bool, err error) {
	file, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, fmt.Errorf("locking out other agents: %w", err)
	}
	for ; ; waited = true {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return file, waited, nil
		case err != syscall.EWOULDBLOCK:
			_ = file.Close()
			return nil, false, fmt.Errorf("locking out other agents: %w", err)
		case !waited:
			log.Info("Waiting for the agent that runs on this node to end", "lock", file.Name())
		}
		select {
		case <-ctx.Done():
			_ = file.Close()
			return nil, false, ctx.Err()
		case <-time.After(lockRetryDelay):
		}
	}
}

func openLock(file *os.File) (*lock, error) {
	root, err := findMountRoot(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("finding where the folder of CDI specs is mounted: %w", err)
	}
	return &lock{file, root}, nil
}

func (l *lock) releaseLock() { _ = l.file.Close() }

// watchFolder returns an error when the lock no longer excludes other agents because the folder was emptied, replaced or moved. The specs of running
// containers are then gone, and new specs may be where no runtime looks. The next agent starts with what is there.
func (l *lock) watchFolder(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lockCheckInterval):
		}
		if err := l.checkIntact(); err != nil {
			return fmt.Errorf("the folder of CDI specs was emptied, replaced or moved away: %w", err)
		}
	}
}

func (l *lock) checkIntact() error {
	own, err := l.file.Stat()
	if err != nil {
		return err
	}
	found, err := os.Stat(l.file.Name())
	if err != nil {
		return err
	}
	if !os.SameFile(own, found) {
		return fmt.Errorf("%s is another file", l.file.Name())
	}
	root, err := findMountRoot(l.file)
	if err != nil {
		return err
	}
	if root != l.root {
		return fmt.Errorf("what is mounted there was %s and is %s", l.root, root)
	}
	return nil
}

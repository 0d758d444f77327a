package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// startWithNamespaces starts a command as the first process of a new PID namespace, in a new mount namespace.
func startWithNamespaces(cmd *exec.Cmd) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWPID | unix.CLONE_NEWNS
	return cmd.Start()
}

// within calls start on a thread that has entered the mount namespace of a process, and whose children are born into its PID namespace. The thread
// has no other use and ends afterwards, since it could not return.
func within(pid int, start func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
		if err := enterNamespaces(pid); err != nil {
			result <- err
			return
		}
		result <- start()
	}()
	return <-result
}

// enterNamespaces moves the calling thread.
func enterNamespaces(pid int) (err error) {
	open := func(name string) (*os.File, error) {
		return os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns", name))
	}
	pids, err := open("pid")
	if err != nil {
		return fmt.Errorf("finding the node's namespaces: %w", err)
	}
	defer func() { err = errors.Join(err, pids.Close()) }()
	mounts, err := open("mnt")
	if err != nil {
		return fmt.Errorf("finding the node's namespaces: %w", err)
	}
	defer func() { err = errors.Join(err, mounts.Close()) }()
	// A thread that shares its root and working directory with others may not change its mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("leaving the shared working directory: %w", err)
	}
	if err := unix.Setns(int(pids.Fd()), unix.CLONE_NEWPID); err != nil {
		return fmt.Errorf("entering the node's PID namespace: %w", err)
	}
	if err := unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering the node's mount namespace: %w", err)
	}
	return nil
}

// isOverlay reports whether a folder is on an overlay file system.
func isOverlay(dir string) bool {
	var stat unix.Statfs_t
	return unix.Statfs(dir, &stat) == nil && stat.Type == unix.OVERLAYFS_SUPER_MAGIC
}

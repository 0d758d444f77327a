package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/validation"
)

// location is where one sandbox keeps its files. Beside the sandbox's own directory are a lock, which the supervisor holds for as long as it lives, and
// the supervisor's log.
type location struct {
	root string
	name string
	// ownRoot is true if the user named root.
	ownRoot bool
}

const (
	programName = "gpu-sandbox"
	defaultName = "default"
)

// commandText returns the command line of a verb for exactly this sandbox.
func (p *location) commandText(verb string) string {
	text := programName + " " + verb
	if p.name != defaultName {
		text += " --name " + p.name
	}
	if p.ownRoot {
		text += " --dir " + p.root
	}
	return "`" + text + "`"
}

// completeFlags fills in and checks defaults of the flags.
func (p *location) completeFlags() error {
	if msgs := validation.IsDNS1123Label(p.name); len(msgs) > 0 {
		return fmt.Errorf("reading --name %q: %s", p.name, strings.Join(msgs, "; "))
	}
	p.ownRoot = p.root != ""
	if !p.ownRoot {
		cache, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("finding the cache directory (set --dir): %w", err)
		}
		p.root = filepath.Join(cache, programName)
	}
	root, err := filepath.Abs(p.root)
	if err != nil {
		return fmt.Errorf("reading --dir: %w", err)
	}
	p.root = root
	return nil
}

func (p *location) sandboxDir() string { return filepath.Join(p.root, p.name) }
func (p *location) statePath() string  { return filepath.Join(p.sandboxDir(), "state.json") }
func (p *location) logPath() string    { return filepath.Join(p.root, p.name+".log") }
func (p *location) lockPath() string   { return filepath.Join(p.root, p.name+".lock") }

// errLocked means that a supervisor is running.
var errLocked = errors.New("the sandbox is running")

// acquireLock takes the lock without waiting, or returns [errLocked]. It ends with the process, or by release.
func (p *location) acquireLock() (*os.File, error) {
	if err := os.MkdirAll(p.root, 0o700); err != nil {
		return nil, fmt.Errorf("creating the directory of sandboxes: %w", err)
	}
	for {
		f, err := os.OpenFile(p.lockPath(), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("opening the lock: %w", err)
		}
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(errLocked, f.Close())
		case err != nil:
			return nil, errors.Join(fmt.Errorf("taking the lock: %w", err), f.Close())
		case p.isLock(f):
			return f, nil
		}
		// Its last holder removed it between our opening and locking it: it is no longer the lock.
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("closing an old lock: %w", err)
		}
	}
}

// isLock reports whether an open file is the one at the lock's path.
func (p *location) isLock(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(p.lockPath())
	return err == nil && os.SameFile(opened, named)
}

// releaseLock gives the lock back and removes its file.
func (p *location) releaseLock(lock *os.File) error {
	err := errors.Join(os.Remove(p.lockPath()), lock.Close())
	if err != nil {
		return fmt.Errorf("releasing the lock: %w", err)
	}
	return nil
}

// writeOwner writes this process's id into the lock that it holds.
func writeOwner(lock *os.File) error {
	if err := lock.Truncate(0); err != nil {
		return fmt.Errorf("writing the lock: %w", err)
	}
	if _, err := lock.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return fmt.Errorf("writing the lock: %w", err)
	}
	return nil
}

// readOwner returns the process id in the lock. It means something only while the lock is held.
func (p *location) readOwner() (int, error) {
	data, err := os.ReadFile(p.lockPath())
	if err != nil {
		return 0, fmt.Errorf("reading the lock: %w", err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		return 0, fmt.Errorf("reading the lock: %w", err)
	}
	return pid, nil
}

// directoryExists reports whether the sandbox's directory exists.
func (p *location) directoryExists() bool {
	_, err := os.Stat(p.sandboxDir())
	return !errors.Is(err, fs.ErrNotExist)
}

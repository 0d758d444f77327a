package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// inside names the folder in which TestAFolderThatIsMovedAway is to mount, in the process that has mounts of its own.
const inside = "G8S_TEST_MOUNT"

// TestAFolderThatIsMovedAway has the folder of specs mounted as a container of the agent has, and renamed where it comes from: its path
// and all that is in it stay as they are, and the runtime looks elsewhere.
func TestAFolderThatIsMovedAway(t *testing.T) {
	if dir := os.Getenv(inside); dir != "" {
		moveAway(t, dir)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("mounting takes root")
	}
	again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	again.Env = append(os.Environ(), inside+"="+t.TempDir())
	again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	out, err := again.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("mounting takes more rights than this container has")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("error %v:\n%s", err, out)
	}
}

func moveAway(t *testing.T, dir string) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	host, container := filepath.Join(dir, "cdi"), filepath.Join(dir, "container")
	must(os.Mkdir(host, 0o700))
	must(os.Mkdir(container, 0o700))
	must(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	must(syscall.Mount(host, container, "", syscall.MS_BIND, ""))
	held, err := acquireNodeLock(t.Context(), container, slog.New(slog.DiscardHandler))
	must(err)
	defer held.releaseLock()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*lockCheckInterval)
		defer cancel()
		time.AfterFunc(2*lockCheckInterval, func() {
			if err := held.checkIntact(); err != nil {
				t.Errorf("the lock is lost before anything was done: %v", err)
			}
			if err := os.Rename(host, host+".old"); err != nil {
				t.Error(err)
			}
		})
		if err := held.watchFolder(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("error %v (%v), want one", err, ctx.Err())
		}
	})
	must(os.Mkdir(host, 0o700)) // as the runtime does
	if err := held.checkIntact(); err == nil {
		t.Error("the lock stands beside a folder that was made anew")
	}
	must(os.Remove(host))
	must(os.Rename(host+".old", host))
	if err := held.checkIntact(); err != nil {
		t.Errorf("moved back, the folder is as it was: %v", err)
	}
}

func TestWhatIsMounted(t *testing.T) {
	const mounts = "36 35 98:0 /run /run rw,noatime shared:1 - tmpfs tmpfs rw\n" +
		"361 35 0:25 /cdi\\040old /var/run/cdi rw - tmpfs tmpfs rw\n"
	for info, want := range map[string]string{
		"pos:\t0\nflags:\t02\nmnt_id:\t361\nino:\t7\n": "/cdi\\040old", "mnt_id:\t36\n": "/run", "mnt_id:\t3\n": "", "": "",
	} {
		if got, err := mountRoot([]byte(mounts), []byte(info)); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: mounted is %q, error %v; want %q", info, got, err, want)
		}
	}
}

package sandbox

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sync/errgroup"
)

// TestLaunchersOfSeveralSandboxesStart: a child of one sandbox that begins while another one writes its launcher would keep that open, and it would be busy.
func TestLaunchersOfSeveralSandboxesStart(t *testing.T) {
	folder := t.TempDir()
	var group errgroup.Group
	for i := range 8 {
		group.Go(func() error {
			path := filepath.Join(folder, strconv.Itoa(i))
			for range 50 {
				if err := writeLauncher(path, path+".pid", "true"); err != nil {
					return err
				}
				if err := exec.CommandContext(t.Context(), path, "--help").Run(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

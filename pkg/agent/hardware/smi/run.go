package smi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// folders are where the program lies, below the root of the machine.
var folders = []string{"usr/bin", "usr/local/bin", "usr/local/nvidia/bin", "opt/bin", "run/nvidia/driver/usr/bin"}

// ErrNone is wrapped if there is no nvidia-smi, or if it does not reach the driver.
var ErrNone = errors.New("nvidia-smi says nothing")

// QueryMachine runs the nvidia-smi of the driver that is installed below root.
func QueryMachine(ctx context.Context, root string) (Machine, error) {
	program, err := findProgram(root)
	if err != nil {
		return Machine{}, err
	}
	output, err := runProgram(ctx, root, program, "-q", "-x")
	if err != nil {
		return Machine{}, err
	}
	machine, err := Parse(output)
	if err != nil || len(machine.GPUs) == 0 {
		return machine, err
	}
	if output, err = runProgram(ctx, root, program, "topo", "-m"); err != nil {
		return Machine{}, err
	}
	return machine, machine.AddTopology(output)
}

// findProgram returns the program's path as seen from root.
func findProgram(root string) (string, error) {
	if filepath.Clean(root) == "/" {
		if path, err := exec.LookPath("nvidia-smi"); err == nil {
			return path, nil
		}
	}
	for _, folder := range folders {
		path := filepath.Join(folder, "nvidia-smi")
		if info, err := os.Stat(filepath.Join(root, path)); err == nil && !info.IsDir() {
			return "/" + path, nil
		}
	}
	return "", fmt.Errorf("%w: it is neither on the PATH nor in %s below %s", ErrNone, strings.Join(folders, ", "), root)
}

// runProgram runs the program with the machine's own libraries, which are those of root.
func runProgram(ctx context.Context, root, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	if driver, inside := strings.CutSuffix(program, "/usr/bin/nvidia-smi"); inside && driver == "/run/nvidia/driver" {
		root, cmd.Path = filepath.Join(root, driver), strings.TrimPrefix(program, driver)
	}
	if filepath.Clean(root) != "/" {
		cmd.SysProcAttr, cmd.Dir = &syscall.SysProcAttr{Chroot: root}, "/"
	}
	output, err := cmd.Output()
	if err != nil {
		said := strings.TrimSpace(string(output))
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			said = strings.TrimSpace(said + " " + string(failed.Stderr))
		}
		return nil, fmt.Errorf("%w: %s %s: %w: %s", ErrNone, program, strings.Join(args, " "), err, said)
	}
	return output, nil
}

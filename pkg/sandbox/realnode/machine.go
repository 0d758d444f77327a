package realnode

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Machine is what a real node requires of its machine.
type Machine struct {
	// OS is the operating system as Go names it.
	OS string
	// UID is the user that this process acts as.
	UID int
	// Namespaces is why no mount and PID namespace can be created; nil if one can.
	Namespaces error
	// Cgroups is why no cgroup can be created; nil if one can.
	Cgroups error
	// Address is why the machine has no address that kubelet accepts for its node, which is any but loopback; nil if it has one.
	Address error
}

// ErrCannot is wrapped by the refusals of a machine that cannot run a real node.
var ErrCannot = errors.New("this machine cannot run a real node")

// CheckSupport returns nil if a real node can run on the machine, else an error that wraps [ErrCannot] and lists all obstacles.
func (m Machine) CheckSupport() error {
	var reasons []string
	if m.OS != "linux" {
		// No other check applies to another system.
		return fmt.Errorf("%w: it runs %s, and kubelet and runc need Linux", ErrCannot, m.OS)
	}
	if m.UID != 0 {
		reasons = append(reasons, fmt.Sprintf("user %d is not root", m.UID))
	}
	if m.UID == 0 && m.Namespaces != nil {
		reasons = append(reasons, fmt.Sprintf("no namespaces can be made: %v", m.Namespaces))
	}
	if m.UID == 0 && m.Cgroups != nil {
		reasons = append(reasons, fmt.Sprintf("no cgroup can be made: %v", m.Cgroups))
	}
	if m.Address != nil {
		reasons = append(reasons, fmt.Sprintf("it has no address but loopback: %v", m.Address))
	}
	if len(reasons) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrCannot, strings.Join(reasons, "; "))
}

// InspectMachine examines this machine. It creates a cgroup and namespaces, and removes them.
func InspectMachine() Machine {
	m := Machine{OS: runtime.GOOS, UID: os.Geteuid()}
	_, m.Address = nodeAddress()
	if m.OS != "linux" || m.UID != 0 {
		return m
	}
	m.Namespaces = tryNamespaces()
	m.Cgroups = tryCgroup(fmt.Sprintf("gpu-sandbox-try-%d", os.Getpid()))
	return m
}

// tryNamespaces makes namespaces and mounts what a node mounts first.
func tryNamespaces() error {
	cmd := exec.Command("/bin/sh", "-c", "mount -n --make-rprivate / && mount -n -t proc proc /proc")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := startWithNamespaces(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

func tryCgroup(name string) error {
	groups, err := findCgroups(cgroupRoot)
	if err != nil {
		return err
	}
	return errors.Join(groups.createCgroup(name), groups.removeCgroup(name))
}

// nodeAddress returns the address that kubelet detects for its node by default.
func nodeAddress() (net.IP, error) {
	ip, err := utilnet.ChooseHostInterface()
	if err != nil {
		return nil, fmt.Errorf("finding the machine's address: %w", err)
	}
	return ip, nil
}

// programs are what a real node runs, all in the directory of the sandbox's tools.
var programs = []string{KubeletName, ContainerdName, "containerd-shim-runc-v2", "ctr", "runc", "ptp", "host-local"}

// ToolsCommand is what a user runs when programs of the real node are missing.
const ToolsCommand = "make node-tools"

// CheckTools returns an error that names the programs of the real node that are not in a directory of tools, and how to
// get them.
func CheckTools(dir string) error {
	missing := slices.DeleteFunc(slices.Clone(programs), func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		return err == nil && !info.IsDir()
	})
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("missing %s in %s: run %q in the repository", strings.Join(missing, ", "), dir, ToolsCommand)
}

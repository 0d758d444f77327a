package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ToolsCommand is what a user runs when the programs of the control plane are missing.
const ToolsCommand = "make tools build"

// Options say what a sandbox consists of. The zero value is an API server alone, in a directory of its own.
type Options struct {
	// Dir is the sandbox's directory. It is created, must be empty or absent, and is removed by Stop. ""
	// means a new temporary directory.
	Dir string
	// BinDir holds etcd, kube-apiserver and the others. "" means [FindTools].
	BinDir string
	// Progress gets a line for each step. nil means none.
	Progress io.Writer
	// ControllerManager runs kube-controller-manager. Without it no controller handles Jobs and Deployments, and the two admission plugins that need
	// controllers (ServiceAccount, TaintNodesByCondition) are off.
	ControllerManager bool
	// Kwok runs kwok, which keeps nodes alive and runs the pods bound to them.
	Kwok bool
	// HostExec lets `kubectl exec` into a simulated pod run the command ON THIS MACHINE, as this user, and `kubectl attach` the pod's own. The
	// kubelets' port has no authentication: any user with an account on this machine could use it.
	HostExec bool
	// RealKubelets prepares the API server for real kubelets: it authorizes them as nodes, and presents a certificate, [Sandbox.KubeletClientCA],
	// when it requests logs from them.
	RealKubelets bool
	// PodGroups enables Kubernetes' own PodGroups in the API server, and the field of pods that names one: it is off by default in 1.37.
	PodGroups bool
	// Restart restarts the scheduler and the controller when they end by themselves, as a kubelet does with the pods of a Deployment: a leader ends
	// if it cannot renew its lease for a while.
	Restart bool
	// Fleet is created before Start returns. nil means no nodes.
	Fleet *Fleet
}

// FullOptions are the options of a whole cluster with the default fleet.
func FullOptions() Options {
	fleet := DefaultFleet()
	return Options{ControllerManager: true, Kwok: true, Fleet: &fleet}
}

// withDefaults sets defaults and checks requirements.
func (o Options) withDefaults() (Options, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.BinDir == "" {
		dir, err := FindTools()
		if err != nil {
			return o, err
		}
		o.BinDir = dir
	}
	dir, err := filepath.Abs(o.BinDir)
	if err != nil {
		return o, fmt.Errorf("finding the tools: %w", err)
	}
	o.BinDir = dir
	return o, checkTools(o.BinDir, o.requiredTools())
}

// requiredTools are the programs that these options need.
func (o Options) requiredTools() []string {
	names := []string{nameEtcd, nameAPIServer, nameKubectl}
	if o.ControllerManager {
		names = append(names, nameControllerManager)
	}
	if o.Kwok {
		names = append(names, nameKwok)
	}
	return names
}

func checkTools(dir string, names []string) error {
	var missing []string
	for _, name := range names {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("missing %s in %s: run %q in the repository", strings.Join(missing, ", "), dir, ToolsCommand)
	}
	return nil
}

// FindTools returns the directory of the control plane's programs: tools/ beside this executable, else
// bin/tools of the repository that the working directory is in.
func FindTools() (string, error) {
	if self, err := os.Executable(); err == nil {
		if dir := filepath.Join(filepath.Dir(self), "tools"); isDir(dir) {
			return dir, nil
		}
	}
	root, err := findRepository()
	if err != nil {
		return "", fmt.Errorf("finding the control plane's programs: %w", err)
	}
	return filepath.Join(root, "bin", "tools"), nil
}

// findRepository returns the closest directory above the working directory that holds our tools' modules.
func findRepository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("reading the working directory: %w", err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if isDir(filepath.Join(dir, "hack", "tools", "cluster")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("neither tools/ beside this program nor a repository around the working directory")
		}
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

package kubelet

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// AlignNothing is the policy of a Topology Manager that aligns nothing.
const AlignNothing = "none"

// topologyPolicies are all that kubelet knows. Another text is none of its settings.
var topologyPolicies = []string{AlignNothing, "best-effort", "restricted", "single-numa-node"}

// maxSettings is the most that is read of a file with settings, in bytes.
const maxSettings = 1 << 20

// ReadTopologyPolicy returns the Topology Manager policy of the machine's kubelet: single-numa-node, restricted, best-effort or [AlignNothing]. It is ""
// where no process is called kubelet, as with k3s, or where several are and none is named as the node. procs is where Linux lists processes.
//
// Any container may call a process kubelet, with any flags and files: only processes with the mounts of the machine count, of which kubelet is one.
func ReadTopologyPolicy(procs, node string) (string, error) {
	process, args, err := findKubelet(procs, node)
	if err != nil || process == "" {
		return "", err
	}
	return topologyPolicy(args, os.DirFS(filepath.Join(process, "root")))
}

// findKubelet returns the folder of kubelet's process and its command line, "" if it is not known which one is kubelet.
func findKubelet(procs, node string) (process string, args []string, err error) {
	processes, err := os.ReadDir(procs)
	if err != nil {
		return "", nil, fmt.Errorf("finding kubelet: %w", err)
	}
	several := false
	for _, entry := range processes {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		folder := filepath.Join(procs, entry.Name())
		if !hasMachineMounts(procs, folder) {
			continue
		}
		if name, err := os.ReadFile(filepath.Join(folder, "comm")); err != nil || strings.TrimSpace(string(name)) != "kubelet" {
			continue // also one that has just ended
		}
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil {
			continue
		}
		found := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		if flagValue(found, "hostname-override") == node {
			return folder, found, nil
		}
		several = process != ""
		process, args = folder, found
	}
	if several {
		return "", nil, nil
	}
	return process, args, nil
}

// hasMachineMounts reports whether a process has the mounts of the machine's first process, as no container has.
func hasMachineMounts(procs, process string) bool {
	machine, err := os.Readlink(filepath.Join(procs, "1/ns/mnt"))
	if err != nil {
		return false
	}
	own, err := os.Readlink(filepath.Join(process, "ns/mnt"))
	return err == nil && own == machine
}

// topologyPolicy returns the policy by kubelet's command line and files: a flag wins over the files of --config-dir, of which the last one wins, and those
// over the file of --config.
func topologyPolicy(args []string, files fs.FS) (string, error) {
	if policy := flagValue(args, "topology-manager-policy"); policy != "" {
		return checkPolicy(policy)
	}
	var settings []string
	if file := flagValue(args, "config"); file != "" {
		settings = append(settings, file)
	}
	if folder := flagValue(args, "config-dir"); folder != "" {
		more, err := listDropIns(files, strings.TrimPrefix(path.Clean(folder), "/"))
		if err != nil {
			return "", fmt.Errorf("listing kubelet's settings: %w", err)
		}
		settings = append(settings, more...)
	}
	policy := AlignNothing
	for _, file := range settings {
		data, err := readSettings(files, strings.TrimPrefix(path.Clean(file), "/"))
		if err != nil {
			return "", fmt.Errorf("reading kubelet's settings: %w", err)
		}
		var config struct {
			TopologyManagerPolicy string `json:"topologyManagerPolicy"`
		}
		if err := yaml.Unmarshal(data, &config); err != nil {
			return "", fmt.Errorf("reading kubelet's settings in %s: %w", file, err)
		}
		if config.TopologyManagerPolicy != "" {
			policy = config.TopologyManagerPolicy
		}
	}
	return checkPolicy(policy)
}

// listDropIns returns the files of --config-dir in the order in which kubelet merges them: those of its subfolders as well, by path (its
// mergeKubeletConfigurations).
func listDropIns(files fs.FS, folder string) ([]string, error) {
	var found []string
	err := fs.WalkDir(files, folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && path.Ext(name) == ".conf" {
			found = append(found, name)
		}
		return err
	})
	return found, err //nolint:wrapcheck // it names the file
}

// checkPolicy returns a policy that kubelet knows.
func checkPolicy(policy string) (string, error) {
	if !slices.Contains(topologyPolicies, policy) {
		return "", fmt.Errorf("kubelet has no Topology Manager policy %q", policy)
	}
	return policy, nil
}

// readSettings reads a regular file of limited size.
func readSettings(files fs.FS, name string) ([]byte, error) {
	info, err := fs.Stat(files, name)
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	if !info.Mode().IsRegular() || info.Size() > maxSettings {
		return nil, fmt.Errorf("%s is no file of up to %d bytes", name, maxSettings)
	}
	return fs.ReadFile(files, name) //nolint:wrapcheck // it names the file
}

// flagValue returns the value of a flag on a command line, the last of several, "" for none.
func flagValue(args []string, name string) (value string) {
	for i, arg := range args {
		arg, isFlag := strings.CutPrefix(arg, "-")
		arg = strings.TrimPrefix(arg, "-")
		text, has := strings.CutPrefix(arg, name+"=")
		switch {
		case isFlag && has:
			value = text
		case isFlag && arg == name && i+1 < len(args):
			value = args[i+1]
		}
	}
	return value
}

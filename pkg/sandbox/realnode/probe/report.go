// Package probe is the program of the containers that run on a real node: it reports from inside what a container received, and detects whether
// another running container has the same. It is static and needs no other file.
package probe

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// UUIDVariable is the environment variable that names a container's GPUs, separated by commas.
const UUIDVariable = "G8S_GPU_UUIDS"

// Report is what a container sees, as one line of JSON.
type Report struct {
	// Name is the container's configured name.
	Name string `json:"name,omitempty"`
	// Env are the variables that list GPUs for programs.
	Env map[string]string `json:"env,omitempty"`
	// Devices are the device nodes of GPUs, by path.
	Devices []Device `json:"devices,omitempty"`
	// Conflicts are the GPUs that another container has, which runs now.
	Conflicts []string `json:"conflicts,omitempty"`
}

// Device is a device node.
type Device struct {
	Path string `json:"path"`
	// Number is the major and minor number, as 195:0.
	Number string `json:"number"`
	// Error is why it cannot be opened to read and write, "" if it can.
	Error string `json:"error,omitempty"`
}

// UUIDs returns the GPUs in the container's environment, in order of their names.
func (r Report) UUIDs() []string {
	text := r.Env[UUIDVariable]
	if text == "" {
		return nil
	}
	uuids := strings.Split(text, ",")
	slices.Sort(uuids)
	return uuids
}

// prefixes are the prefixes of the names of variables about GPUs.
var prefixes = []string{"NVIDIA_", "CUDA_", "G8S_"}

// inspectContainer reports what this process sees. dev is /dev except in tests.
func inspectContainer(name string, environment []string, dev string) (Report, error) {
	r := Report{Name: name, Env: map[string]string{}}
	for _, entry := range environment {
		key, value, _ := strings.Cut(entry, "=")
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			r.Env[key] = value
		}
	}
	paths, err := filepath.Glob(filepath.Join(dev, "nvidia[0-9]*"))
	if err != nil {
		return r, fmt.Errorf("listing devices: %w", err)
	}
	for _, path := range paths {
		r.Devices = append(r.Devices, inspectDevice(path))
	}
	slices.SortFunc(r.Devices, func(a, b Device) int { return cmp.Compare(a.Path, b.Path) })
	return r, nil
}

func inspectDevice(path string) Device {
	d := Device{Path: path}
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err == nil {
		number := uint64(stat.Rdev) //nolint:unconvert // not on every system
		d.Number = fmt.Sprintf("%d:%d", number>>8&0xfff, number&0xff|number>>12&0xfff00)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		d.Error = err.Error()
		return d
	}
	_ = f.Close()
	return d
}

// gpuNames are the names by which other containers would know the container's GPUs: the UUIDs in its environment, and its devices.
func (r Report) gpuNames() []string {
	names := r.UUIDs()
	for _, device := range r.Devices {
		names = append(names, filepath.Base(device.Path))
	}
	return names
}

// lockGPUs locks a file for each GPU, for as long as this process lives, and records which ones another process has locked. All containers of the node
// share the folder.
func (r *Report) lockGPUs(folder string) error {
	for _, card := range r.gpuNames() {
		// The descriptor stays open on purpose: the lock ends with the process, in whatever way.
		fd, err := syscall.Open(filepath.Join(folder, card), syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o666)
		if err != nil {
			return fmt.Errorf("holding card %s: %w", card, err)
		}
		switch err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); err {
		case nil:
		case syscall.EWOULDBLOCK:
			r.Conflicts = append(r.Conflicts, card)
		default:
			return fmt.Errorf("holding card %s: %w", card, err)
		}
	}
	return nil
}

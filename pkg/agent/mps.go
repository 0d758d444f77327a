package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
)

// MPS is NVIDIA's Multi-Process Service on the node. Its control daemon limits each program to a given amount of memory.
type MPS struct {
	// Folder has the daemon's pipes in pipe and its shared memory in shm, by its path on the node. "" is no daemon.
	Folder string
	// HostRoot is where the agent sees the node's root: "" or / where it is not in a container, as containers' mounts are by the node's paths.
	HostRoot string
}

// clientPipes is where programs look for the daemon by default.
const clientPipes = "/tmp/nvidia-mps"

// addMPSEdits adds to edits what limits a container to its share of GPUs. A stopped daemon is an error: without it the container would have no limit.
func (m MPS) addMPSEdits(edits *specs.ContainerEdits, record *binding.Record) error {
	if m.Folder == "" || record.Devices[0].MemoryMiB == 0 {
		return nil
	}
	pipes := filepath.Join(m.Folder, "pipe")
	if _, err := os.Stat(filepath.Join(m.HostRoot, pipes, "control")); err != nil {
		return fmt.Errorf("the control daemon of MPS, which keeps containers to their shares, does not run on this node: %w", err)
	}
	limits := make([]string, len(record.Devices))
	for i, device := range record.Devices {
		limits[i] = strconv.Itoa(i) + "=" + strconv.FormatInt(device.MemoryMiB, 10) + "M"
	}
	edits.Env = append(edits.Env,
		"CUDA_MPS_PIPE_DIRECTORY="+clientPipes,
		// The daemon sees all GPUs of the node, so the program gets the list of its own, and the limits follow that order.
		"CUDA_VISIBLE_DEVICES="+strings.Join(record.UUIDs(), ","),
		"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT="+strings.Join(limits, ","),
	)
	edits.Mounts = append(edits.Mounts,
		&specs.Mount{HostPath: pipes, ContainerPath: clientPipes, Options: []string{"rbind", "nosuid", "nodev"}},
		&specs.Mount{HostPath: filepath.Join(m.Folder, "shm"), ContainerPath: "/dev/shm", Options: []string{"rbind", "nosuid", "nodev"}},
	)
	return nil
}

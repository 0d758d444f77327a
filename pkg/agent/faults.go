package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const (
	// faultFileName is beside the CDI specs, as /run is empty after a restart of the machine. The runtime does not read it.
	faultFileName = ".g8s.host-gpu-faults"
	// bootIDFile changes when the machine restarts, also where the folder does not.
	bootIDFile = "/proc/sys/kernel/random/boot_id"
)

// faultFile keeps the lasting faults of GPUs while no agent runs, since restarting the agent repairs no GPU. Restarting the machine does, or the
// fault shows again. To clear a fault repaired otherwise, remove the file and restart the agent.
type faultFile struct{ path, bootID string }

type faultsJSON struct {
	BootID string `json:"bootID"`
	// Faults are the words for what is wrong, by UUID of the GPU.
	Faults map[string][]string `json:"faults"`
}

func newFaultFile(folder string) faultFile {
	bootID, err := os.ReadFile(bootIDFile)
	if err != nil {
		bootID = nil // then the folder alone tells
	}
	return faultFile{path: filepath.Join(folder, faultFileName), bootID: strings.TrimSpace(string(bootID))}
}

// readFaults returns the faults that were found since the machine started.
func (f faultFile) readFaults() (map[string][]string, error) {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var kept faultsJSON
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.path, err)
	}
	if kept.BootID != f.bootID {
		return nil, nil
	}
	return kept.Faults, nil
}

func (f faultFile) writeFaults(faults map[string][]string) error {
	data, err := json.Marshal(faultsJSON{BootID: f.bootID, Faults: faults})
	if err != nil {
		return err
	}
	temporary := f.path + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, f.path)
}

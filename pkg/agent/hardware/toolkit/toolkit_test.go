package toolkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// spec has two cards in the toolkit's manner: what all need, and what each needs.
const spec = `
cdiVersion: 0.5.0
kind: nvidia.com/gpu
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  deviceNodes: [{path: /dev/nvidiactl}, {path: /dev/nvidia-uvm}]
  mounts: [{hostPath: /usr/lib/libcuda.so.570, containerPath: /usr/lib/libcuda.so.570, options: [ro]}]
  hooks: [{hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache]}]
devices:
- {name: "0", containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}}
- {name: GPU-a, containerEdits: {deviceNodes: [{path: /dev/nvidia0}, {path: /dev/dri/card1}], additionalGids: [44]}}
- {name: GPU-b, containerEdits: {deviceNodes: [{path: /dev/nvidia1}], additionalGids: [44]}}
`

func write(t *testing.T, folder, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEdits(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "nvidia.yaml", spec)
	write(t, folder, "other.json", `{"cdiVersion":"0.6.0","kind":"vendor.com/nic","devices":[{"name":"GPU-a"}]}`)
	write(t, folder, "broken.yaml", "\t")
	edits, err := NewSpecs([]string{filepath.Join(folder, "none"), folder}, "g8s").Edits([]string{"GPU-b", "GPU-a"})
	if err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for _, node := range edits.DeviceNodes {
		nodes = append(nodes, node.Path)
	}
	if diff := cmp.Diff([]string{"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1", "/dev/nvidia0", "/dev/dri/card1"}, nodes); diff != "" {
		t.Errorf("device nodes (-want +got):\n%s", diff)
	}
	if len(edits.Mounts) != 1 || len(edits.Hooks) != 1 || len(edits.Env) != 1 || len(edits.AdditionalGIDs) != 1 {
		t.Errorf("edits %+v, want what all cards need once", edits)
	}
}

func TestACardThatTheToolkitDoesNotName(t *testing.T) {
	folder := t.TempDir()
	specs := NewSpecs([]string{folder}, "g8s")
	for _, uuid := range []string{"GPU-a", "1"} {
		if _, err := specs.Edits([]string{uuid}); err == nil || !strings.Contains(err.Error(), "nvidia-ctk cdi generate") {
			t.Errorf("error %v, want what to do", err)
		}
	}
	write(t, folder, "nvidia.yaml", spec)
	if _, err := specs.Edits([]string{"GPU-a"}); err != nil {
		t.Error(err)
	}
	// The driver was exchanged, and the spec made again.
	write(t, folder, "nvidia.yaml", strings.ReplaceAll(spec, "570", "580"))
	if err := os.Chtimes(filepath.Join(folder, "nvidia.yaml"), time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	edits, err := specs.Edits([]string{"GPU-a"})
	if err != nil || edits.Mounts[0].HostPath != "/usr/lib/libcuda.so.580" {
		t.Errorf("edits %+v, error %v; want those of the new driver", edits, err)
	}
}

// TestTheSpecOfThisStartOfTheMachine counts, and not one that outlived it: the cards may have other numbers.
func TestTheSpecOfThisStartOfTheMachine(t *testing.T) {
	folders := Folders("/host")
	if folders[1] != "/host/etc/cdi" {
		t.Errorf("folders %v, want that of the machine", folders)
	}
	now, kept := t.TempDir(), t.TempDir()
	write(t, now, "nvidia.yaml", spec)
	write(t, kept, "nvidia.yaml", strings.ReplaceAll(spec, "/dev/nvidia1", "/dev/nvidia7"))
	for i, folder := range folders {
		folders[i] = map[string]string{"/var/run/cdi": now, "/host/etc/cdi": kept}[folder]
	}
	edits, err := NewSpecs(folders, "g8s").Edits([]string{"GPU-b"})
	if err != nil {
		t.Fatal(err)
	}
	if node := edits.DeviceNodes[len(edits.DeviceNodes)-1].Path; node != "/dev/nvidia1" {
		t.Errorf("the card is %s, want /dev/nvidia1", node)
	}
}

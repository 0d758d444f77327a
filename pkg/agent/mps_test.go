package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

func TestMPS(t *testing.T) {
	folder := t.TempDir()
	share := &binding.Record{Devices: []gpu.Device{{UUID: "B", MemoryMiB: 2048}, {UUID: "A", MemoryMiB: 2048}}}
	var edits specs.ContainerEdits
	if err := (MPS{Folder: folder}).addMPSEdits(&edits, share); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("error %v: without the daemon nothing keeps the container to its share", err)
	}
	for name, tc := range map[string]struct {
		mps    MPS
		record *binding.Record
		want   []string
	}{
		"a share": {MPS{Folder: folder}, share, []string{
			"CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_VISIBLE_DEVICES=B,A", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2048M,1=2048M",
		}},
		"a share, by an agent in a container that sees the node elsewhere": {MPS{Folder: "/" + filepath.Base(folder), HostRoot: filepath.Dir(folder)}, share, []string{
			"CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps", "CUDA_VISIBLE_DEVICES=B,A", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=2048M,1=2048M",
		}},
		"whole cards":             {MPS{Folder: folder}, &binding.Record{Devices: []gpu.Device{{UUID: "A"}}}, nil},
		"a node without a daemon": {MPS{}, share, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Join(folder, "pipe"), 0o750); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(folder, "pipe", "control"), "")
			var edits specs.ContainerEdits
			if err := tc.mps.addMPSEdits(&edits, tc.record); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, edits.Env); diff != "" {
				t.Errorf("environment (-want +got):\n%s", diff)
			}
			if len(edits.Mounts)*3 != 2*len(tc.want) {
				t.Errorf("%d mounts", len(edits.Mounts))
			}
			for _, mount := range edits.Mounts {
				if !strings.HasPrefix(mount.HostPath, tc.mps.Folder+"/") {
					t.Errorf("%s is mounted, want a folder in %s of the node", mount.HostPath, tc.mps.Folder)
				}
			}
		})
	}
}

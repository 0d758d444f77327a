package fake

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, content string) (*Library, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cards.yaml")
	write(t, path, content)
	library, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return library, path
}

func TestCardsOfAFile(t *testing.T) {
	library, path := open(t, "count: 4\nnvlinks: 2\n")
	fleet, err := library.Read()
	if err != nil {
		t.Fatal(err)
	}
	one := 1
	if diff := cmp.Diff(hardware.GPU{UUID: UUID(2), Index: 2, Minor: new(2), Product: defaultProduct, MemoryMiB: defaultMemoryMiB, NUMANode: &one, PCIeSwitch: "0000:11:00.0"}, fleet.GPUs[2]); diff != "" {
		t.Errorf("card 2 (-want +got):\n%s", diff)
	}
	write(t, path, `{count: 2, nvlinks: 2, cards: [{index: 0, absent: true}, {index: 1, lost: true}, {index: 7, uuid: GPU-x, memoryMiB: 5,
		slices: [{uuid: MIG-y, profile: 1g.5gb}]}, {index: 8}]}`)
	if fleet, err = library.Read(); err != nil {
		t.Fatal(err)
	}
	if len(fleet.GPUs) != 3 || !fleet.GPUs[0].Signs.Lost || !fleet.GPUs[1].MIG || fleet.GPUs[1].UUID != "GPU-x" {
		t.Errorf("cards are %+v", fleet.GPUs)
	}
	if diff := cmp.Diff([]gpu.Link{{GPUs: []int{1, 8}, NVLinks: 2}}, fleet.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
	edits, err := library.Edits([]string{"MIG-y", UUID(8)})
	if err != nil || len(edits.DeviceNodes) != 2 || edits.DeviceNodes[0].Path != "/dev/nvidia7-mig0" || edits.DeviceNodes[1].HostPath != os.DevNull {
		t.Errorf("edits %+v, error %v", edits, err)
	}
}

// TestEventsComeOnce: each when the file first has it, and none that it had before the agent started.
func TestEventsComeOnce(t *testing.T) {
	library, path := open(t, "events: [{id: old, xid: 1}]\n")
	write(t, path, "events: [{id: old, xid: 1}, {id: a, uuid: A, xid: 79}, {id: b, xid: 74}]\n")
	for _, want := range []hardware.Event{{UUID: "A", XID: 79}, {XID: 74}} {
		if event, err := library.Wait(t.Context()); err != nil || event != want {
			t.Errorf("event %+v, error %v; want %+v", event, err, want)
		}
	}
	write(t, path, "events: [{id: b, xid: 74}]\n")
	ctx, cancel := context.WithTimeout(t.Context(), 3*interval)
	defer cancel()
	if event, err := library.Wait(ctx); err == nil {
		t.Errorf("event %+v came again", event)
	}
}

func TestMisbehaviour(t *testing.T) {
	library, path := open(t, "count: 1\n")
	write(t, path, "count: 1\nerror: driver/library version mismatch\n")
	if _, err := library.Read(); err == nil || !strings.Contains(err.Error(), "mismatch") {
		t.Errorf("error %v, want that of the file", err)
	}
	write(t, path, "count: 1\ndelay: 150ms\n")
	begin := time.Now()
	if _, err := library.Read(); err != nil || time.Since(begin) < 150*time.Millisecond {
		t.Errorf("error %v after %s, want to wait", err, time.Since(begin))
	}
	for _, broken := range []string{"count: 1\ncard: []\n", "count: -1\n", "count: 65\n", "delay: long\n", "count: [\n"} {
		write(t, path, broken)
		if _, err := library.Read(); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
	write(t, path, "cards: [{index: 0, processes: [{pid: 7, usedMiB: 9}]}, {index: 1, lost: true}]\n")
	if processes, err := library.Processes(UUID(0)); err != nil || len(processes) != 1 {
		t.Errorf("processes %v, error %v", processes, err)
	}
	if _, err := library.Processes(UUID(1)); err == nil {
		t.Error("a lost card answers")
	}
}

package sysfs

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPlaceOf(t *testing.T) {
	base := t.TempDir()
	root := filepath.Join(base, "bus")
	plug := func(address, path, node string) {
		t.Helper()
		device := filepath.Join(base, "devices", path, address)
		for _, err := range []error{
			os.MkdirAll(device, 0o755), os.MkdirAll(root, 0o755), os.WriteFile(filepath.Join(device, "numa_node"), []byte(node+"\n"), 0o600),
			os.Symlink(device, filepath.Join(root, address)),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	plug("0000:0e:00.0", "pci0000:00/0000:00:01.0/0000:0b:00.0/0000:0c:08.0", "1")
	plug("0000:0f:00.0", "pci0000:00/0000:00:01.0/0000:0b:00.0/0000:0c:10.0", "1")
	plug("0000:41:00.0", "pci0000:40/0000:40:01.1", "-1")
	plug("10000:01:00.0", "pci10000:00/10000:00:02.0/10000:05:00.0/10000:06:00.0", "0")
	for busID, want := range map[string]struct {
		node   int
		bridge string
	}{
		"00000000:0E:00.0": {1, "0000:0b:00.0"}, "0000:0f:00.0": {1, "0000:0b:00.0"}, "00000000:41:00.0": {-1, ""},
		"00000000:99:00.0": {-1, ""}, "": {-1, ""},
	} {
		place := ReadPlace(root, busID)
		node := -1
		if place.NUMANode != nil {
			node = *place.NUMANode
		}
		if node != want.node || place.Switch != want.bridge {
			t.Errorf("%s is on node %d under %q, want %d under %q", busID, node, place.Switch, want.node, want.bridge)
		}
	}
}

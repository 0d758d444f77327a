//go:build cgo

package nvml

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"g8s.host/gpu-scheduler/pkg/agent/hardware/toolkit"
)

// install lays out the files of a driver of the mock's version below a folder, and the device nodes of all cards but those without.
func install(t *testing.T, root string, m *machine, without ...int) {
	t.Helper()
	version, _ := m.SystemGetDriverVersion()
	for _, file := range []string{"usr/lib64/libcuda.so." + version, "usr/lib64/libnvidia-ml.so." + version, "usr/bin/nvidia-smi", "dev/.here"} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"nvidiactl", "nvidia-uvm"}
	for i := range m.Devices {
		if minor, _ := m.card(i).GetMinorNumber(); !slices.Contains(without, i) {
			names = append(names, "nvidia"+strconv.Itoa(minor))
		}
	}
	for _, name := range names {
		if err := unix.Mknod(filepath.Join(root, "dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
			t.Skipf("no device node can be made here: %v", err)
		}
	}
}

// TestASpecIsMadeWhereTheToolkitMadeNone: the device nodes of the cards that were chosen and no others, the driver's files, no hooks.
func TestASpecIsMadeWhereTheToolkitMadeNone(t *testing.T) {
	m, l := newMachine(t)
	root := t.TempDir()
	install(t, root, m, 7)
	l.driver = findDriverPlace(root, "")
	read(t, l)
	if _, err := l.Edits([]string{m.uuid(7)}); err == nil || !strings.Contains(err.Error(), "/dev/nvidia7") {
		t.Errorf("error %v, want one about the node that is missing: the container would start without its card", err)
	}
	if source := l.Source(m.uuid(2)); source != toolkit.Made {
		t.Errorf("the spec of card 2 is %q, want %q", source, toolkit.Made)
	}
	edits, err := l.Edits([]string{m.uuid(2), m.uuid(5)})
	if err != nil {
		t.Fatal(err)
	}
	var nodes, mounts []string
	for _, node := range edits.DeviceNodes {
		nodes = append(nodes, node.Path)
	}
	for _, mount := range edits.Mounts {
		mounts = append(mounts, mount.HostPath)
	}
	slices.Sort(nodes)
	if got := strings.Join(nodes, " "); got != "/dev/nvidia-uvm /dev/nvidia2 /dev/nvidia5 /dev/nvidiactl" {
		t.Errorf("device nodes %s", got)
	}
	if !slices.Contains(mounts, "/usr/bin/nvidia-smi") || !slices.ContainsFunc(mounts, func(path string) bool { return strings.HasPrefix(path, "/usr/lib64/libcuda.so.") }) {
		t.Errorf("mounts %v, want the driver's files as the runtime sees them", mounts)
	}
	if len(edits.Hooks) > 0 {
		t.Errorf("hooks %v, want none: their program is not there", edits.Hooks)
	}
}

// TestAToolkitsSpecCountsBeforeOneThatIsMade, and what cannot be made says why.
func TestAToolkitsSpecCountsBeforeOneThatIsMade(t *testing.T) {
	m, l := newMachine(t)
	l.driver = findDriverPlace(t.TempDir(), "") // without a driver's files
	read(t, l)
	if _, err := l.Edits([]string{m.uuid(0)}); err == nil || !strings.Contains(err.Error(), "nvidia-ctk") || !strings.Contains(err.Error(), "cannot make one") {
		t.Errorf("error %v, want what to do, and why the agent cannot", err)
	}
	root := t.TempDir()
	install(t, root, m)
	l.driver = findDriverPlace(root, "")
	folder := t.TempDir()
	spec := "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- {name: " + m.uuid(0) + ", containerEdits: {deviceNodes: [{path: /dev/nvidia0}]}}\n"
	if err := os.WriteFile(filepath.Join(folder, "nvidia.yaml"), []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	written := newLibrary(m, t.TempDir(), toolkit.NewSpecs([]string{folder}, "g8s"))
	written.driver = l.driver
	read(t, written)
	for i, want := range []string{filepath.Join(folder, "nvidia.yaml"), toolkit.Made} {
		if source := written.Source(m.uuid(i)); source != want {
			t.Errorf("the spec of card %d is %q, want %q", i, source, want)
		}
	}
}

// TestADriverWithoutCUDA: containers would start and could not compute.
func TestADriverWithoutCUDA(t *testing.T) {
	m, l := newMachine(t)
	root := t.TempDir()
	install(t, root, m)
	version, _ := m.SystemGetDriverVersion()
	if err := os.Remove(filepath.Join(root, "usr/lib64/libcuda.so."+version)); err != nil {
		t.Fatal(err)
	}
	l.driver = findDriverPlace(root, "")
	read(t, l)
	if _, err := l.Edits([]string{m.uuid(0)}); err == nil || !strings.Contains(err.Error(), "libcuda.so is not found") {
		t.Errorf("error %v, want what is missing", err)
	}
}

func TestWhereTheDriverIs(t *testing.T) {
	for library, want := range map[string]driverPlace{
		"/host/usr/lib64/libnvidia-ml.so.1":                   {machine: "/host", root: "/host"},
		"/host/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1": {machine: "/host", root: "/host/run/nvidia/driver"},
		libraryName: {machine: "/host", root: "/host"},
	} {
		if got := findDriverPlace("/host/", library); got != want {
			t.Errorf("the driver of %s is at %+v, want %+v", library, got, want)
		}
	}
	maps := filepath.Join(t.TempDir(), "maps")
	line := "7f00-7f01 r-xp 00000000 fd:00 12    /usr/local/nvidia/lib64/libnvidia-ml.so.580.159.04\n"
	if err := os.WriteFile(maps, []byte("7e00-7e01 rw-p 00000000 00:00 0\n"+line), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := librariesLoaded(maps); len(got) != 1 || got[0] != "/usr/local/nvidia/lib64" {
		t.Errorf("the library lies in %v", got)
	}
}

//go:build cgo

package nvml

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/nvidia-container-toolkit/pkg/nvcdi"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/hardware/hookless"
)

// place is where the driver is installed.
type place struct {
	// machine is where the machine's / is seen, and root where the driver's is: the same, or the root of NVIDIA's driver container.
	machine, root string
}

// driverContainer is the root of NVIDIA's driver container.
const driverContainer = "run/nvidia/driver"

// placeOf returns the location of a driver whose library has a path below the machine's root.
func placeOf(machine, library string) place {
	machine = filepath.Clean(machine)
	if container := filepath.Join(machine, driverContainer); strings.HasPrefix(library, container+"/") {
		return place{machine: machine, root: container}
	}
	return place{machine: machine, root: machine}
}

// madeSpec is a generated spec of GPUs and slices, or why none could be generated.
type madeSpec struct {
	uuids []string
	tried time.Time
	spec  *specs.Spec
	err   error
}

// makeAgain is the delay before a failed spec is generated again: the driver's files may be installed after its module.
const makeAgain = 10 * time.Second

// makeSpec generates what the toolkit's own spec would contain for the GPUs that answer, if they have changed. It queries the driver and looks for
// files, which no start of a container should wait for.
func (l *Library) makeSpec(reads []reading) {
	var uuids []string
	for i := range reads {
		uuids = append(uuids, reads[i].card.UUID)
		for _, slice := range reads[i].card.Slices {
			uuids = append(uuids, slice.UUID)
		}
	}
	made := l.made.Load()
	if slices.Equal(made.uuids, uuids) && (made.err == nil || time.Since(made.tried) < makeAgain) {
		return
	}
	spec, err := l.generate(uuids)
	l.made.Store(&madeSpec{uuids: uuids, tried: time.Now(), spec: spec, err: err})
}

// generate uses NVIDIA's own library to write the spec. It is written without hooks: their program comes with the toolkit, which is not there, and
// the agent's own would have to be installed on the machine in its place.
func (l *Library) generate(uuids []string) (*specs.Spec, error) {
	namer, err := nvcdi.NewDeviceNamer(nvcdi.DeviceNameStrategyUUID)
	if err != nil {
		return nil, err
	}
	generator, err := nvcdi.New(
		nvcdi.WithLogger(silent{}), nvcdi.WithNvmlLib(l.lib), nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithDeviceNamers(namer),
		nvcdi.WithDriverRoot(l.driver.root), nvcdi.WithDevRoot(l.driver.machine), nvcdi.WithLibrarySearchPaths(librariesLoaded("/proc/self/maps")),
		nvcdi.WithDisabledHooks(nvcdi.AllHooks), nvcdi.WithFeatureFlags(nvcdi.FeatureDisableNvsandboxUtils),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing a CDI spec: %w", err)
	}
	made, err := generator.GetSpec(uuids...)
	if err != nil {
		return nil, fmt.Errorf("making a CDI spec: %w", err)
	}
	spec := made.Raw()
	if !slices.ContainsFunc(spec.ContainerEdits.Mounts, isCUDA) {
		return nil, fmt.Errorf("making a CDI spec: the driver's libcuda.so is not found below %s", l.driver.root)
	}
	return hookless.Complete(spec, l.driver.machine, soname), nil
}

// isCUDA reports whether what is mounted is the library that all programs need.
func isCUDA(mount *specs.Mount) bool {
	return strings.HasPrefix(filepath.Base(mount.HostPath), "libcuda.so.")
}

// librariesLoaded returns the folder of the driver's library that this process has loaded, according to the kernel: distributions put it where
// NVIDIA's library does not look.
func librariesLoaded(maps string) []string {
	data, err := os.ReadFile(maps)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		if at := strings.IndexByte(line, '/'); at >= 0 && strings.Contains(line, "/libnvidia-ml.so") {
			return []string{filepath.Dir(strings.TrimSpace(line[at:]))}
		}
	}
	return nil
}

// soname returns the name under which programs ask for a library, "" if it has none.
func soname(path string) string {
	file, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	names, err := file.DynString(elf.DT_SONAME)
	if err != nil || len(names) == 0 {
		return ""
	}
	return names[0]
}

// silent drops the log of NVIDIA's library: its error describes what is missing.
type silent struct{}

func (silent) Debugf(string, ...any)   {}
func (silent) Errorf(string, ...any)   {}
func (silent) Infof(string, ...any)    {}
func (silent) Warningf(string, ...any) {}
func (silent) Tracef(string, ...any)   {}

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

// driverPlace is where the driver is installed.
type driverPlace struct {
	// machine is where the machine's / is seen, and root where the driver's is: the same, or the root of NVIDIA's driver container.
	machine, root string
}

// driverContainer is the root of NVIDIA's driver container.
const driverContainer = "run/nvidia/driver"

// findDriverPlace returns the location of a driver whose library has a path below the machine's root.
func findDriverPlace(machine, library string) driverPlace {
	machine = filepath.Clean(machine)
	if container := filepath.Join(machine, driverContainer); strings.HasPrefix(library, container+"/") {
		return driverPlace{machine: machine, root: container}
	}
	return driverPlace{machine: machine, root: machine}
}

// madeSpec is a generated spec of GPUs and slices, or why none could be generated.
type madeSpec struct {
	uuids []string
	tried time.Time
	spec  *specs.Spec
	err   error
}

// specRetryDelay is the delay before a failed spec is generated again: the driver's files may be installed after its module.
const specRetryDelay = 10 * time.Second

// makeSpec generates what the toolkit's own spec would contain for the GPUs that answer, if they have changed. It queries the driver and looks for
// files, which no start of a container should wait for.
func (l *Library) makeSpec(reads []reading) {
	var uuids []string
	for i := range reads {
		uuids = append(uuids, reads[i].gpu.UUID)
		for _, slice := range reads[i].gpu.Slices {
			uuids = append(uuids, slice.UUID)
		}
	}
	made := l.made.Load()
	if slices.Equal(made.uuids, uuids) && (made.err == nil || time.Since(made.tried) < specRetryDelay) {
		return
	}
	spec, err := l.generateSpec(uuids)
	l.made.Store(&madeSpec{uuids: uuids, tried: time.Now(), spec: spec, err: err})
}

// generateSpec uses NVIDIA's own library to write the spec. It is written without hooks: their program comes with the toolkit, which is not there, and
// the agent's own would have to be installed on the machine in its place.
func (l *Library) generateSpec(uuids []string) (*specs.Spec, error) {
	namer, err := nvcdi.NewDeviceNamer(nvcdi.DeviceNameStrategyUUID)
	if err != nil {
		return nil, err
	}
	generator, err := nvcdi.New(
		nvcdi.WithLogger(silentLogger{}), nvcdi.WithNvmlLib(l.lib), nvcdi.WithMode(nvcdi.ModeNvml), nvcdi.WithDeviceNamers(namer),
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
	return hookless.CompleteSpec(spec, l.driver.machine, sharedObjectName), nil
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

// sharedObjectName returns the name under which programs ask for a library, "" if it has none.
func sharedObjectName(path string) string {
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

// silentLogger drops the log of NVIDIA's library: its error describes what is missing.
type silentLogger struct{}

func (silentLogger) Debugf(string, ...any)   {}
func (silentLogger) Errorf(string, ...any)   {}
func (silentLogger) Infof(string, ...any)    {}
func (silentLogger) Warningf(string, ...any) {}
func (silentLogger) Tracef(string, ...any)   {}

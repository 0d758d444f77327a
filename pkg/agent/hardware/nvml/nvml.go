//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	cdispecs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/sysfs"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/toolkit"
)

// Library is a [hardware.Library].
type Library struct {
	lib     nvml.Interface
	version string
	pci     string
	specs   *toolkit.Specs

	mu sync.Mutex
	// known are the GPUs as they were last read completely, by the driver's number: lost GPUs report nothing.
	known map[int]hardware.GPU
	// addresses are those of the GPUs on the bus, by the driver's number, and links the most NVLinks that were seen up, by the
	// address of the other GPU and by that of the GPU; "" is all switches.
	addresses map[int]string
	links     map[string]map[string]int

	// driver is where the driver is installed, and made the spec of the GPUs that it was last made for.
	driver driverPlace
	made   atomic.Pointer[madeSpec]

	// minors are the numbers of device nodes, by UUID of the GPU or slice.
	minors atomic.Pointer[map[string]int]

	// events and names, the UUIDs of the GPUs in it, are used only by Wait: a lost GPU no longer reports its UUID.
	events nvml.EventSet
	names  map[nvml.Device]string
}

var _ hardware.Library = (*Library)(nil)

// libraryName is what the driver's package calls the library.
const libraryName = "libnvidia-ml.so.1"

// folders are where distributions and NVIDIA's driver container put it, below the driver's root.
var folders = []string{
	"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/lib", "lib64", "lib",
	"run/nvidia/driver/usr/lib/x86_64-linux-gnu", "run/nvidia/driver/usr/lib/aarch64-linux-gnu", "run/nvidia/driver/usr/lib64",
}

// Open loads the library of the driver that is installed below root, / for this machine's own.
func Open(root string) (hardware.Library, error) {
	path := libraryName // wherever the loader finds it
	for _, folder := range folders {
		candidate := filepath.Join(root, folder, libraryName)
		if _, err := os.Stat(candidate); err == nil {
			path = candidate
			break
		}
	}
	l := newLibrary(nvml.New(nvml.WithLibraryPath(path)), sysfs.Root, toolkit.NewSpecs(toolkit.Folders(root), cdi.Prefix))
	l.driver = findDriverPlace(root, path)
	if err := l.initLibrary(); err != nil {
		return nil, fmt.Errorf("loading NVIDIA's driver library %s (is the driver installed?): %w", path, err)
	}
	return l, nil
}

func newLibrary(lib nvml.Interface, pci string, specs *toolkit.Specs) *Library {
	l := &Library{lib: lib, pci: pci, specs: specs, known: map[int]hardware.GPU{}, addresses: map[int]string{},
		links: map[string]map[string]int{}, driver: findDriverPlace("/", "")}
	l.minors.Store(&map[string]int{})
	l.made.Store(&madeSpec{err: errors.New("the driver has named no card yet")})
	specs.OrMake(func() (*cdispecs.Spec, error) {
		made := l.made.Load()
		return made.spec, made.err
	})
	return l
}

func (l *Library) initLibrary() error {
	if err := nvmlError("initialising", l.lib.Init()); err != nil {
		return err
	}
	driver, ret := l.lib.SystemGetDriverVersion()
	if err := nvmlError("asking for the driver's version", ret); err != nil {
		return err
	}
	l.version = driver
	return nil
}

// Version names the driver.
func (l *Library) Version() string { return "NVIDIA driver " + l.version }

// Driver returns the driver's version.
func (l *Library) Driver() string { return l.version }

// nvmlError returns nvml's answer as an error, nil for success.
func nvmlError(doing string, ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_GPU_IS_LOST:
		return fmt.Errorf("%s: %w", doing, hardware.ErrLost)
	}
	return fmt.Errorf("%s: %s", doing, ret.Error())
}

// Read returns the GPUs. A GPU that is lost, or answers with an error, is returned in its last known state, and does not affect the others.
func (l *Library) Read() (hardware.Fleet, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	count, ret := l.lib.DeviceGetCount()
	if err := nvmlError("counting the cards", ret); err != nil {
		return hardware.Fleet{}, err
	}
	var fleet hardware.Fleet
	var reads []reading
	silent := map[string]bool{}
	for i := range count {
		r, err := l.readGPU(i)
		switch known, ok := l.known[i]; {
		case err == nil:
			l.known[i], l.addresses[i] = r.gpu, r.busID
			reads = append(reads, r)
			fleet.GPUs = append(fleet.GPUs, r.gpu)
		case ok:
			lost := errors.Is(err, hardware.ErrLost)
			known.Signs = hardware.Signs{Lost: lost, Failing: !lost}
			silent[l.addresses[i]] = true
			fleet.GPUs = append(fleet.GPUs, known)
		default: // never known, so never given out
			fleet.Unread = append(fleet.Unread, fmt.Sprintf("card %d: %v", i, err))
		}
	}
	for i := range reads {
		at := slices.IndexFunc(fleet.GPUs, func(card hardware.GPU) bool { return card.Index == reads[i].gpu.Index })
		fleet.GPUs[at].Signs = healthSigns(&reads[i])
		fleet.GPUs[at].Signs.LinksDown = l.countLinksDown(&reads[i], silent)
	}
	fleet.Links = findLinks(reads)
	l.noteMinors(reads)
	l.makeSpec(reads)
	return fleet, nil
}

// Processes returns the processes that compute or draw with a GPU or a slice.
func (l *Library) Processes(uuid string) ([]hardware.Process, error) {
	device, ret := l.lib.DeviceGetHandleByUUID(uuid)
	if err := nvmlError("finding card "+uuid, ret); err != nil {
		return nil, err
	}
	computing, ret := device.GetComputeRunningProcesses()
	if err := nvmlError("asking who computes", ret); err != nil {
		return nil, err
	}
	drawing, ret := device.GetGraphicsRunningProcesses()
	if ret == nvml.SUCCESS {
		computing = append(computing, drawing...)
	}
	used := map[uint32]uint64{}
	for _, process := range computing {
		// A process that both computes and draws is in both lists, with all of its memory. ^0 is unknown.
		if process.UsedGpuMemory != ^uint64(0) {
			used[process.Pid] = max(used[process.Pid], process.UsedGpuMemory)
		}
	}
	var processes []hardware.Process
	for pid, bytes := range used {
		processes = append(processes, hardware.Process{PID: int(pid), UsedMiB: int64(bytes >> 20)})
	}
	slices.SortFunc(processes, func(a, b hardware.Process) int { return a.PID - b.PID })
	return processes, nil
}

// cString returns a string of C in an array.
func cString(array []uint8) string {
	s, _, _ := strings.Cut(string(array), "\x00")
	return s
}

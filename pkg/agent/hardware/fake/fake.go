// Package fake is a fleet of GPUs from a file, for machines without any. The file is read again when it changes, so that a test can make a GPU
// unhealthy, take it off the bus, or make the library itself fail, hang and recover.
package fake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// interval is how often the file is looked at.
const interval = 100 * time.Millisecond

// maxGPUs bounds what a file may ask for.
const maxGPUs = gpu.MaxGPUs

// Config is the file.
type Config struct {
	// Count adds that many equal GPUs, with MemoryMiB each, of which the driver reserves ReservedMiB: GPUs 0 and 1, 2 and 3, … share a switch, the
	// first half is on NUMA node 0, and NVLinks links connect all of them.
	Count     int    `json:"count,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	Product   string `json:"product,omitempty"`
	NVLinks   int    `json:"nvlinks,omitempty"`
	// ReservedMiB is empty for a driver that does not report it.
	ReservedMiB *int64 `json:"reservedMiB,omitempty"`
	// Unplaced GPUs have no NUMA node and no switch, as in virtual machines, where Linux reports neither.
	Unplaced bool `json:"unplaced,omitempty"`
	// GPUs changes GPUs that Count made, by index, and adds others.
	GPUs []GPU `json:"cards,omitempty"`
	// Links replaces the links that Count made.
	Links []gpu.Link `json:"links,omitempty"`
	// Events are reported once each: when the file first has an event's ID.
	Events []Event `json:"events,omitempty"`
	// Error is what every call fails with, "" for none.
	Error string `json:"error,omitempty"`
	// Delay is how long every call takes.
	Delay string `json:"delay,omitempty"`
}

// GPU is a GPU of the file. Fields that are not given are those that [Config.Count] makes.
type GPU struct {
	Index     int    `json:"index"`
	UUID      string `json:"uuid,omitempty"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	// ReservedMiB is of this GPU.
	ReservedMiB *int64 `json:"reservedMiB,omitempty"`
	NUMANode    *int   `json:"numaNode,omitempty"`
	PCIeSwitch  string `json:"pcieSwitch,omitempty"`
	// Absent GPUs are missing, like one that fell off the bus after the driver was reloaded.
	Absent bool `json:"absent,omitempty"`
	// Slices put the GPU into MIG mode.
	Slices    []Slice   `json:"slices,omitempty"`
	Processes []Process `json:"processes,omitempty"`
	// The rest are the GPU's signs.
	Lost            bool `json:"lost,omitempty"`
	RowRemapFailed  bool `json:"rowRemapFailed,omitempty"`
	RowRemapPending bool `json:"rowRemapPending,omitempty"`
	ThermalSlowdown bool `json:"thermalSlowdown,omitempty"`
	LinksDown       int  `json:"linksDown,omitempty"`
	// Recovery is the driver's verdict: None, Reset or Reboot. It is empty for a driver without one.
	Recovery string `json:"recovery,omitempty"`
}

// Slice is a MIG slice of a GPU; a GPU with any is in MIG mode.
type Slice struct {
	UUID      string `json:"uuid"`
	Profile   string `json:"profile"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
}

// Process uses memory of a GPU.
type Process struct {
	PID     int   `json:"pid"`
	UsedMiB int64 `json:"usedMiB"`
}

// Event is an XID. An empty UUID is all GPUs.
type Event struct {
	ID   string `json:"id"`
	UUID string `json:"uuid,omitempty"`
	XID  uint64 `json:"xid"`
}

// UUID returns the UUID of a GPU that [Config.Count] makes.
func UUID(index int) string { return fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", index, index) }

// Library is a [hardware.Library].
type Library struct {
	path string

	mu       sync.Mutex
	read     time.Time
	size     int64
	config   Config
	fleet    hardware.Fleet
	reported map[string]bool
	pending  []hardware.Event
}

var _ hardware.Library = (*Library)(nil)

// Open reads the file. Its initial events count as already reported.
func Open(path string) (*Library, error) {
	l := &Library{path: path, reported: map[string]bool{}}
	if err := l.refreshConfig(); err != nil {
		return nil, err
	}
	l.pending = nil
	return l, nil
}

// Version identifies the GPUs as fake.
func (*Library) Version() string { return "fake cards of a file" }

// Driver is none.
func (*Library) Driver() string { return "none" }

// Source is the file, of each GPU.
func (l *Library) Source(string) string { return l.path }

// Read returns the GPUs of the file.
func (l *Library) Read() (hardware.Fleet, error) {
	_, fleet, err := l.currentConfig()
	return fleet, err
}

// Wait returns the events of the file, in order, each once.
func (l *Library) Wait(ctx context.Context) (hardware.Event, error) {
	for {
		if _, _, err := l.currentConfig(); err == nil {
			if event, ok := l.nextEvent(); ok {
				return event, nil
			}
		}
		select {
		case <-ctx.Done():
			return hardware.Event{}, ctx.Err()
		case <-time.After(interval):
		}
	}
}

func (l *Library) nextEvent() (hardware.Event, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return hardware.Event{}, false
	}
	event := l.pending[0]
	l.pending = l.pending[1:]
	return event, true
}

// Processes returns those of the file.
func (l *Library) Processes(uuid string) ([]hardware.Process, error) {
	config, fleet, err := l.currentConfig()
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(fleet.GPUs, func(card hardware.GPU) bool { return card.UUID == uuid })
	if i < 0 {
		return nil, nil
	}
	if fleet.GPUs[i].Signs.Lost {
		return nil, hardware.ErrLost
	}
	var processes []hardware.Process
	for _, card := range config.GPUs {
		if card.Index == fleet.GPUs[i].Index {
			for _, process := range card.Processes {
				processes = append(processes, hardware.Process(process))
			}
		}
	}
	return processes, nil
}

// Edits returns a device node for each GPU or slice: /dev/nvidiaN, which is /dev/null.
func (l *Library) Edits(uuids []string) (specs.ContainerEdits, error) {
	_, fleet, err := l.currentConfig()
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	names := map[string]string{}
	for _, card := range fleet.GPUs {
		names[card.UUID] = "/dev/nvidia" + strconv.Itoa(card.Index)
		for j, slice := range card.Slices {
			names[slice.UUID] = fmt.Sprintf("/dev/nvidia%d-mig%d", card.Index, j)
		}
	}
	var edits specs.ContainerEdits
	for _, uuid := range uuids {
		name, ok := names[uuid]
		if !ok {
			return specs.ContainerEdits{}, fmt.Errorf("no card %s", uuid)
		}
		edits.DeviceNodes = append(edits.DeviceNodes, &specs.DeviceNode{Path: name, HostPath: os.DevNull})
	}
	return edits, nil
}

// currentConfig returns the file's content, after the delay and with the error that it asks for.
func (l *Library) currentConfig() (Config, hardware.Fleet, error) {
	if err := l.refreshConfig(); err != nil {
		return Config{}, hardware.Fleet{}, err
	}
	l.mu.Lock()
	config, fleet := l.config, l.fleet
	l.mu.Unlock()
	if delay, err := time.ParseDuration(config.Delay); err == nil {
		time.Sleep(delay)
	}
	if config.Error != "" {
		return Config{}, hardware.Fleet{}, errors.New(config.Error)
	}
	return config, fleet, nil
}

// refreshConfig reads the file where it changed.
func (l *Library) refreshConfig() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.path)
	if err != nil {
		return fmt.Errorf("reading the fake cards: %w", err)
	}
	if info.ModTime().Equal(l.read) && info.Size() == l.size {
		return nil
	}
	config, err := loadConfig(l.path)
	if err != nil {
		return fmt.Errorf("reading the fake cards: %w", err)
	}
	l.read, l.size, l.config, l.fleet = info.ModTime(), info.Size(), config, config.buildFleet()
	for _, event := range config.Events {
		if !l.reported[event.ID] {
			l.reported[event.ID] = true
			l.pending = append(l.pending, hardware.Event{UUID: event.UUID, XID: event.XID})
		}
	}
	return nil
}

func loadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, err
	}
	var config Config
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return Config{}, err
	}
	if config.Count < 0 || config.Count > maxGPUs {
		return Config{}, fmt.Errorf("count is %d, want 0 to %d", config.Count, maxGPUs)
	}
	if _, err := time.ParseDuration(config.Delay); config.Delay != "" && err != nil {
		return Config{}, fmt.Errorf("delay: %w", err)
	}
	return config, nil
}

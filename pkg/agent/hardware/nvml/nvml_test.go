//go:build cgo

package nvml

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"
	"github.com/google/go-cmp/cmp"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/toolkit"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// machine is NVIDIA's own mock of a DGX A100, with what it leaves out: links, events, health.
type machine struct {
	*dgxa100.Server
	events chan nvml.EventData
}

func newMachine(t *testing.T) (*machine, *Library) {
	t.Helper()
	m := &machine{Server: dgxa100.New(), events: make(chan nvml.EventData, 8)}
	for i := range m.Devices {
		d := m.card(i)
		d.GetPciInfoFunc = func() (nvml.PciInfo, nvml.Return) { return address(i), nvml.SUCCESS }
		d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if link >= 12 {
				return 0, nvml.ERROR_INVALID_ARGUMENT
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		d.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		d.GetMemoryInfo_v2Func = func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 40960 << 20, Reserved: 571<<20 + 4096}, nvml.SUCCESS
		}
		d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 0, false, false, nvml.SUCCESS }
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return 0, nvml.SUCCESS }
		d.GetFieldValuesFunc = func([]nvml.FieldValue) nvml.Return { return nvml.ERROR_NOT_SUPPORTED }
		d.IsMigDeviceHandleFunc = func() (bool, nvml.Return) { return false, nvml.SUCCESS }
		d.RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.SUCCESS }
	}
	m.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		return &mock.EventSet{WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			select {
			case event := <-m.events:
				return event, nvml.SUCCESS
			case <-time.After(time.Duration(ms) * time.Millisecond):
				return nvml.EventData{}, nvml.ERROR_TIMEOUT
			}
		}, FreeFunc: func() nvml.Return { return nvml.SUCCESS }}, nvml.SUCCESS
	}
	l := newLibrary(m, t.TempDir(), toolkit.NewSpecs(nil, ""))
	if err := l.initLibrary(); err != nil {
		t.Fatal(err)
	}
	return m, l
}

func (m *machine) card(i int) *dgxa100.Device { return m.Devices[i].(*dgxa100.Device) }

// uuid is the one that the mock makes up.
func (m *machine) uuid(i int) string { return m.card(i).UUID }

func address(i int) (pci nvml.PciInfo) {
	copy(pci.BusId[:], fmt.Sprintf("00000000:%02X:00.0", 7+i*16))
	return pci
}

func read(t *testing.T, l *Library) hardware.Fleet {
	t.Helper()
	fleet, err := l.Read()
	if err != nil {
		t.Fatal(err)
	}
	return fleet
}

func TestRead(t *testing.T) {
	m, l := newMachine(t)
	fleet := read(t, l)
	if len(fleet.GPUs) != 8 {
		t.Fatalf("%d cards, want 8", len(fleet.GPUs))
	}
	want := hardware.GPU{UUID: m.uuid(3), Index: 3, Minor: new(3), Product: "Mock NVIDIA A100-SXM4-40GB", MemoryMiB: 40960, ReservedMiB: new(int64(576))}
	if diff := cmp.Diff(want, fleet.GPUs[3]); diff != "" {
		t.Errorf("card 3 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]gpu.Link{{GPUs: []int{0, 1, 2, 3, 4, 5, 6, 7}, NVLinks: 12}}, fleet.Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// TestReservedMemory: what an old library lacks is not called, and what cannot be is not believed.
func TestReservedMemory(t *testing.T) {
	of := func(reserved uint64, ret nvml.Return) func() (nvml.Memory_v2, nvml.Return) {
		return func() (nvml.Memory_v2, nvml.Return) {
			return nvml.Memory_v2{Total: 40960 << 20, Reserved: reserved}, ret
		}
	}
	for name, tc := range map[string]struct {
		answer func() (nvml.Memory_v2, nvml.Return)
		lacks  bool
		want   *int64
	}{
		"nothing":                    {answer: of(0, nvml.SUCCESS), want: new(int64)},
		"a byte":                     {answer: of(1, nvml.SUCCESS), want: new(int64(64))},
		"a whole step":               {answer: of(640<<20, nvml.SUCCESS), want: new(int64(640))},
		"more than there is":         {answer: of(40960<<20+1, nvml.SUCCESS)},
		"a card that does not know":  {answer: of(640<<20, nvml.ERROR_NOT_SUPPORTED)},
		"a library without the call": {lacks: true, answer: func() (nvml.Memory_v2, nvml.Return) { panic("it would have ended the agent") }},
	} {
		t.Run(name, func(t *testing.T) {
			m, l := newMachine(t)
			m.card(0).GetMemoryInfo_v2Func = tc.answer
			m.LookupSymbolFunc = func(symbol string) error {
				if tc.lacks && symbol == "nvmlDeviceGetMemoryInfo_v2" {
					return errors.New("no such symbol")
				}
				return nil
			}
			if diff := cmp.Diff(tc.want, read(t, l).GPUs[0].ReservedMiB); diff != "" {
				t.Errorf("reserved (-want +got):\n%s", diff)
			}
		})
	}
}

// bridged leaves four links between cards 0 and 1, and no others.
func (m *machine) bridged() {
	for i := range m.Devices {
		m.card(i).GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) { return nvml.NVLINK_DEVICE_TYPE_GPU, nvml.SUCCESS }
		m.card(i).GetNvLinkRemotePciInfoFunc = func(int) (nvml.PciInfo, nvml.Return) { return address(1 - i), nvml.SUCCESS }
		m.card(i).GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
			if i > 1 || link >= 4 {
				return 0, nvml.ERROR_NOT_SUPPORTED
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
	}
}

func TestBridges(t *testing.T) {
	m, l := newMachine(t)
	m.bridged()
	if diff := cmp.Diff([]gpu.Link{{GPUs: []int{0, 1}, NVLinks: 4}}, read(t, l).Links); diff != "" {
		t.Errorf("links (-want +got):\n%s", diff)
	}
}

// TestALostCardTakesItsLinksAlone: the card at their other end is as good as before, unless they are down while both cards answer.
func TestALostCardTakesItsLinksAlone(t *testing.T) {
	m, l := newMachine(t)
	m.bridged()
	read(t, l)
	m.card(0).GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return nvml.FEATURE_DISABLED, nvml.SUCCESS }
	if got := read(t, l).GPUs[0].Signs; got != (hardware.Signs{LinksDown: 4}) {
		t.Errorf("signs %+v, want the links that are down", got)
	}
	m.card(1).GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
	fleet := read(t, l)
	if fleet.GPUs[0].Signs != (hardware.Signs{}) || !fleet.GPUs[1].Signs.Lost {
		t.Errorf("signs %+v and %+v, want the second card lost, and nothing wrong with the first", fleet.GPUs[0].Signs, fleet.GPUs[1].Signs)
	}
}

func TestSigns(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(d *dgxa100.Device)
		want  hardware.Signs
	}{
		"a healthy card": {func(*dgxa100.Device) {}, hardware.Signs{}},
		"no spare row": {func(d *dgxa100.Device) {
			d.GetRemappedRowsFunc = func() (int, int, bool, bool, nvml.Return) { return 0, 1, true, true, nvml.SUCCESS }
		}, hardware.Signs{RowRemapPending: true, RowRemapFailed: true}},
		"heat": {func(d *dgxa100.Device) {
			d.GetCurrentClocksEventReasonsFunc = func() (uint64, nvml.Return) { return nvml.ClocksThrottleReasonHwThermalSlowdown | 1, nvml.SUCCESS }
		}, hardware.Signs{ThermalSlowdown: true}},
		"two links down": {func(d *dgxa100.Device) {
			d.GetNvLinkStateFunc = func(link int) (nvml.EnableState, nvml.Return) {
				if link >= 10 {
					return nvml.FEATURE_DISABLED, nvml.SUCCESS
				}
				return nvml.FEATURE_ENABLED, nvml.SUCCESS
			}
		}, hardware.Signs{LinksDown: 2}},
		"the driver's verdict is none": {verdict(nvml.GPU_RECOVERY_ACTION_NONE), hardware.Signs{RecoveryKnown: true}},
		"the driver asks for a reset":  {verdict(nvml.GPU_RECOVERY_ACTION_DRAIN_AND_RESET), hardware.Signs{RecoveryKnown: true, Recovery: hardware.RecoveryReset}},
		"the driver asks for a reboot": {verdict(nvml.GPU_RECOVERY_ACTION_NODE_REBOOT), hardware.Signs{RecoveryKnown: true, Recovery: hardware.RecoveryReboot}},
		"off the bus": {func(d *dgxa100.Device) {
			d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_GPU_IS_LOST }
		}, hardware.Signs{Lost: true}},
		"an error": {func(d *dgxa100.Device) {
			d.GetMemoryInfoFunc = func() (nvml.Memory, nvml.Return) { return nvml.Memory{}, nvml.ERROR_UNKNOWN }
		}, hardware.Signs{Failing: true}},
	} {
		t.Run(name, func(t *testing.T) {
			m, l := newMachine(t)
			read(t, l)
			tc.spoil(m.card(2))
			fleet := read(t, l)
			if diff := cmp.Diff(tc.want, fleet.GPUs[2].Signs); diff != "" {
				t.Errorf("signs (-want +got):\n%s", diff)
			}
			if fleet.GPUs[2].UUID != m.uuid(2) || fleet.GPUs[2].MemoryMiB == 0 {
				t.Errorf("the card is %+v, want to know it still", fleet.GPUs[2])
			}
			if diff := cmp.Diff(hardware.Signs{}, fleet.GPUs[1].Signs); diff != "" {
				t.Errorf("signs of another card (-want +got):\n%s", diff)
			}
		})
	}
}

func verdict(action nvml.DeviceGpuRecoveryAction) func(*dgxa100.Device) {
	return func(d *dgxa100.Device) {
		d.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
			binary.NativeEndian.PutUint32(values[0].Value[:4], uint32(action))
			return nvml.SUCCESS
		}
	}
}

// TestSlices: a card in MIG mode with two slices, in places 0 and 2.
func TestSlices(t *testing.T) {
	m, l := newMachine(t)
	d := m.card(0)
	d.GetMigModeFunc = func() (int, int, nvml.Return) { return nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE, nvml.SUCCESS }
	d.GetMaxMigDeviceCountFunc = func() (int, nvml.Return) { return 7, nvml.SUCCESS }
	d.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i != 0 && i != 2 {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return &mock.Device{
			GetUUIDFunc: func() (string, nvml.Return) { return fmt.Sprintf("MIG-%d", i), nvml.SUCCESS },
			GetNameFunc: func() (string, nvml.Return) { return "NVIDIA A100-SXM4-40GB MIG 1g.5gb+me", nvml.SUCCESS },
			GetAttributesFunc: func() (nvml.DeviceAttributes, nvml.Return) {
				return nvml.DeviceAttributes{MemorySizeMB: 4864}, nvml.SUCCESS
			},
		}, nvml.SUCCESS
	}
	card := read(t, l).GPUs[0]
	want := []hardware.Slice{{UUID: "MIG-0", Profile: "1g.5gb.me", MemoryMiB: 4864}, {UUID: "MIG-2", Profile: "1g.5gb.me", MemoryMiB: 4864}}
	if diff := cmp.Diff(want, card.Slices); diff != "" || !card.MIG {
		t.Errorf("slices (-want +got):\n%s", diff)
	}
}

func TestWait(t *testing.T) {
	m, l := newMachine(t)
	m.events <- nvml.EventData{Device: m.Devices[3], EventType: nvml.EventTypeClock}
	m.events <- nvml.EventData{Device: m.Devices[3], EventType: nvml.EventTypeXidCriticalError, EventData: 79}
	m.events <- nvml.EventData{EventType: nvml.EventTypeXidCriticalError, EventData: 74}
	for _, want := range []hardware.Event{{UUID: m.uuid(3), XID: 79}, {XID: 74}} {
		event, err := l.Wait(t.Context())
		if err != nil || event != want {
			t.Errorf("event %+v, error %v; want %+v", event, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := l.Wait(ctx); err == nil {
		t.Error("an event came from nowhere")
	}
}

// TestACardThatWasNeverRead keeps nobody from the others.
func TestACardThatWasNeverRead(t *testing.T) {
	m, l := newMachine(t)
	m.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 2 {
			return nil, nvml.ERROR_UNKNOWN
		}
		return m.Devices[i], nvml.SUCCESS
	}
	fleet := read(t, l)
	if len(fleet.GPUs) != 7 || len(fleet.Unread) != 1 || !strings.HasPrefix(fleet.Unread[0], "card 2: ") {
		t.Errorf("%d cards, and unread are %v", len(fleet.GPUs), fleet.Unread)
	}
}

// TestACardThatCannotBeWatched is told of once, and its neighbours are watched.
func TestACardThatCannotBeWatched(t *testing.T) {
	m, l := newMachine(t)
	m.card(1).RegisterEventsFunc = func(uint64, nvml.EventSet) nvml.Return { return nvml.ERROR_UNKNOWN }
	if _, err := l.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "card 1") {
		t.Errorf("error %v, want card 1 named", err)
	}
	m.events <- nvml.EventData{Device: m.Devices[3], EventType: nvml.EventTypeXidCriticalError, EventData: 48}
	if event, err := l.Wait(t.Context()); err != nil || event.UUID != m.uuid(3) {
		t.Errorf("event %+v, error %v", event, err)
	}
}

// TestTheDriverGoesOnTellingWhenACardIsLost, of which it says once that it is, and that is named as it was: else it would be all cards.
func TestTheDriverGoesOnTellingWhenACardIsLost(t *testing.T) {
	m, l := newMachine(t)
	lost := false
	create, sets, freed := m.EventSetCreateFunc, 0, 0
	m.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		sets++
		set, ret := create()
		wait := set.(*mock.EventSet).WaitFunc
		return &mock.EventSet{WaitFunc: func(ms uint32) (nvml.EventData, nvml.Return) {
			if sets == 1 && lost {
				return nvml.EventData{}, nvml.ERROR_GPU_IS_LOST
			}
			return wait(ms)
		}, FreeFunc: func() nvml.Return { freed++; return nvml.SUCCESS }}, ret
	}
	uuid := m.uuid(5)
	m.events <- nvml.EventData{Device: m.Devices[4], EventType: nvml.EventTypeXidCriticalError, EventData: 13}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.card(5).GetUUIDFunc = func() (string, nvml.Return) { return "", nvml.ERROR_GPU_IS_LOST }
	m.events <- nvml.EventData{Device: m.Devices[5], EventType: nvml.EventTypeXidCriticalError, EventData: 79}
	if event, err := l.Wait(t.Context()); err != nil || event.UUID != uuid {
		t.Errorf("event %+v, error %v; want that of card %s", event, err, uuid)
	}
	lost = true
	if _, err := l.Wait(t.Context()); err == nil {
		t.Error("the set tells of nothing any more, and Wait says that all is well")
	}
	m.events <- nvml.EventData{Device: m.Devices[3], EventType: nvml.EventTypeXidCriticalError, EventData: 48}
	if event, err := l.Wait(t.Context()); err != nil || event.UUID != m.uuid(3) || freed != 1 {
		t.Errorf("event %+v, error %v, %d sets given back", event, err, freed)
	}
}

// TestTheSpecOfOtherNumbers of device nodes would give a container another card.
func TestTheSpecOfOtherNumbers(t *testing.T) {
	m, l := newMachine(t)
	folder := t.TempDir()
	text := "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n"
	for i := range m.Devices {
		text += fmt.Sprintf("- {name: %s, containerEdits: {deviceNodes: [{path: /dev/nvidiactl}, {path: /dev/nvidia%d}]}}\n", m.uuid(i), i)
	}
	if err := os.WriteFile(filepath.Join(folder, "nvidia.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.specs = toolkit.NewSpecs([]string{folder}, "g8s")
	both := []string{m.uuid(1), m.uuid(2)}
	for range 2 { // before the driver has said the numbers, and after
		if _, err := l.Edits(both); err != nil {
			t.Fatal(err)
		}
		read(t, l)
	}
	m.card(2).GetMinorNumberFunc = func() (int, nvml.Return) { return 3, nvml.SUCCESS }
	read(t, l)
	if _, err := l.Edits(both); err == nil || !strings.Contains(err.Error(), "has /dev/nvidia1, /dev/nvidia2 for") || !strings.Contains(err.Error(), "nvidia-ctk cdi generate") {
		t.Errorf("error %v, want the numbers and what to do", err)
	}
}

func TestProcesses(t *testing.T) {
	m, l := newMachine(t)
	m.card(1).GetComputeRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 9, UsedGpuMemory: 3 << 20}, {Pid: 7, UsedGpuMemory: 2 << 20}, {Pid: 8, UsedGpuMemory: ^uint64(0)}}, nvml.SUCCESS
	}
	m.card(1).GetGraphicsRunningProcessesFunc = func() ([]nvml.ProcessInfo, nvml.Return) {
		return []nvml.ProcessInfo{{Pid: 7, UsedGpuMemory: 2 << 20}}, nvml.SUCCESS
	}
	processes, err := l.Processes(m.uuid(1))
	if diff := cmp.Diff([]hardware.Process{{PID: 7, UsedMiB: 2}, {PID: 9, UsedMiB: 3}}, processes); diff != "" || err != nil {
		t.Errorf("error %v, processes (-want +got):\n%s", err, diff)
	}
}

// TestAMachineWithoutADriver says what is missing.
func TestAMachineWithoutADriver(t *testing.T) {
	if _, err := Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "is the driver installed?") {
		t.Errorf("error %v, want a hint", err)
	}
}

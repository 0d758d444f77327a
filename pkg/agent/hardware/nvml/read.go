//go:build cgo

package nvml

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/sysfs"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

const (
	bytesPerMiB = 1 << 20
	// memoryWithReserved exists in drivers since 510. Calling a missing function of the library ends the program.
	memoryWithReserved = "nvmlDeviceGetMemoryInfo_v2"
)

// reading is a GPU with what links it to others.
type reading struct {
	gpu    hardware.GPU
	device nvml.Device
	busID  string
	// peers counts NVLinks by the bus address of the other GPU, switches those to an NVSwitch.
	peers    map[string]int
	switches int
}

// readGPU returns the GPU with a number. A missing required property is an error; the others are optional.
func (l *Library) readGPU(index int) (reading, error) {
	device, ret := l.lib.DeviceGetHandleByIndex(index)
	if err := nvmlError("finding it", ret); err != nil {
		return reading{}, err
	}
	r := reading{device: device, gpu: hardware.GPU{Index: index}, peers: map[string]int{}}
	uuid, ret := device.GetUUID()
	if err := nvmlError("asking for its UUID", ret); err != nil {
		return reading{}, err
	}
	memory, ret := device.GetMemoryInfo()
	if err := nvmlError("asking for its memory", ret); err != nil {
		return reading{}, err
	}
	pci, ret := device.GetPciInfo()
	if err := nvmlError("asking for its address", ret); err != nil {
		return reading{}, err
	}
	r.gpu.UUID, r.gpu.MemoryMiB, r.busID = uuid, int64(memory.Total/bytesPerMiB), cString(pci.BusId[:])
	r.gpu.ReservedMiB = l.reservedMemory(device, memory.Total)
	if name, ret := device.GetName(); ret == nvml.SUCCESS {
		r.gpu.Product = name
	}
	if minor, ret := device.GetMinorNumber(); ret == nvml.SUCCESS {
		r.gpu.Minor = &minor
	}
	place := sysfs.ReadPlace(l.pci, r.busID)
	r.gpu.NUMANode, r.gpu.PCIeSwitch = place.NUMANode, place.Switch
	if mode, _, ret := device.GetMigMode(); ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
		r.gpu.MIG = true
		if r.gpu.Slices, ret = readSlices(device); ret != nvml.SUCCESS {
			return reading{}, nvmlError("asking for its slices", ret)
		}
	}
	r.countLinks()
	return r, nil
}

// reservedMemory returns the driver's reservation of a GPU's memory, rounded up, and nil if it does not report one, or an impossible one.
func (l *Library) reservedMemory(device nvml.Device, total uint64) *int64 {
	if l.lib.Extensions().LookupSymbol(memoryWithReserved) != nil {
		return nil
	}
	memory, ret := device.GetMemoryInfo_v2()
	if ret != nvml.SUCCESS || memory.Reserved > total {
		return nil
	}
	const step = hardware.ReservedStepMiB * bytesPerMiB
	reserved := int64((memory.Reserved+step-1)/step) * hardware.ReservedStepMiB
	return &reserved
}

// readSlices returns the MIG devices of a GPU, by UUID.
func readSlices(card nvml.Device) ([]hardware.Slice, nvml.Return) {
	most, ret := card.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	var found []hardware.Slice
	for i := range most {
		device, ret := card.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INVALID_ARGUMENT {
			continue // none is made there
		}
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		slice, ret := readSlice(device)
		if ret != nvml.SUCCESS {
			return nil, ret
		}
		found = append(found, slice)
	}
	slices.SortFunc(found, func(a, b hardware.Slice) int { return strings.Compare(a.UUID, b.UUID) })
	return found, nvml.SUCCESS
}

func readSlice(device nvml.Device) (hardware.Slice, nvml.Return) {
	uuid, ret := device.GetUUID()
	if ret != nvml.SUCCESS {
		return hardware.Slice{}, ret
	}
	name, ret := device.GetName()
	if ret != nvml.SUCCESS {
		return hardware.Slice{}, ret
	}
	slice := hardware.Slice{UUID: uuid, Profile: parseProfile(name)}
	if attributes, ret := device.GetAttributes(); ret == nvml.SUCCESS {
		slice.MemoryMiB = int64(attributes.MemorySizeMB)
	}
	return slice, nvml.SUCCESS
}

// parseProfile returns the profile of "NVIDIA A100-SXM4-80GB MIG 1g.10gb+me", as NVIDIA's device plugin writes it in the name of
// a resource: 1g.10gb.me.
func parseProfile(name string) string {
	_, profile, _ := strings.Cut(name, " MIG ")
	return strings.ReplaceAll(strings.TrimSpace(profile), "+", ".")
}

// countLinks counts the NVLinks that are up.
func (r *reading) countLinks() {
	for link := range nvml.NVLINK_MAX_LINKS {
		state, ret := r.device.GetNvLinkState(link)
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		if kind, ret := r.device.GetNvLinkRemoteDeviceType(link); ret == nvml.SUCCESS && kind == nvml.NVLINK_DEVICE_TYPE_SWITCH {
			r.switches++
			continue
		}
		if remote, ret := r.device.GetNvLinkRemotePciInfo(link); ret == nvml.SUCCESS {
			r.peers[cString(remote.BusId[:])]++
		}
	}
}

// findLinks returns how the GPUs are linked: one link for all GPUs behind NVSwitches with as many links each, and one for
// each two GPUs with a bridge.
func findLinks(reads []reading) []gpu.Link {
	var links []gpu.Link
	behind := map[int][]int{}
	for i := range reads {
		if n := reads[i].switches; n > 0 {
			behind[n] = append(behind[n], reads[i].gpu.Index)
		}
		for j := range i {
			if n := reads[i].peers[reads[j].busID]; n > 0 && reads[i].switches+reads[j].switches == 0 {
				links = append(links, gpu.Link{GPUs: []int{reads[j].gpu.Index, reads[i].gpu.Index}, NVLinks: n})
			}
		}
	}
	for n, cards := range behind {
		if len(cards) > 1 {
			links = append(links, gpu.Link{GPUs: cards, NVLinks: n})
		}
	}
	slices.SortFunc(links, func(a, b gpu.Link) int { return slices.Compare(a.GPUs, b.GPUs) })
	return links
}

// healthSigns returns the driver's report of a GPU's health. Unknown values are omitted.
func healthSigns(r *reading) hardware.Signs {
	var signs hardware.Signs
	if _, _, pending, failed, ret := r.device.GetRemappedRows(); ret == nvml.SUCCESS {
		signs.RowRemapPending, signs.RowRemapFailed = pending, failed
	}
	if reasons, ret := r.device.GetCurrentClocksEventReasons(); ret == nvml.SUCCESS {
		signs.ThermalSlowdown = reasons&nvml.ClocksThrottleReasonHwThermalSlowdown != 0
	}
	signs.Recovery, signs.RecoveryKnown = readRecovery(r.device)
	return signs
}

// countLinksDown counts the NVLinks of a GPU that should be up and are not. Not every link of a GPU is wired: only those that were once up count. A link to a
// GPU that does not answer is down with that GPU, and is no fault of this one.
func (l *Library) countLinksDown(r *reading, silent map[string]bool) int {
	most := l.links[r.gpu.UUID]
	if most == nil {
		most = map[string]int{}
		l.links[r.gpu.UUID] = most
	}
	now := maps.Clone(r.peers)
	now[""] = r.switches
	for address, links := range now {
		most[address] = max(most[address], links)
	}
	down := 0
	for address, links := range most {
		if !silent[address] {
			down += links - now[address]
		}
	}
	return down
}

// readRecovery asks for the driver's verdict. A request to drain a GPU from its peers counts as a reset: we drain whole machines.
func readRecovery(device nvml.Device) (recovery hardware.Recovery, known bool) {
	values := []nvml.FieldValue{{FieldId: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if ret := device.GetFieldValues(values); ret != nvml.SUCCESS || values[0].NvmlReturn != uint32(nvml.SUCCESS) {
		return hardware.RecoveryNone, false
	}
	switch nvml.DeviceGpuRecoveryAction(binary.NativeEndian.Uint32(values[0].Value[:4])) {
	case nvml.GPU_RECOVERY_ACTION_NONE:
		return hardware.RecoveryNone, true
	case nvml.GPU_RECOVERY_ACTION_NODE_REBOOT:
		return hardware.RecoveryReboot, true
	}
	return hardware.RecoveryReset, true
}

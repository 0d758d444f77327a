// Package sysfs reads from Linux where a GPU is plugged in, which NVIDIA's library does not report.
package sysfs

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Root is where Linux lists PCI devices.
const Root = "/sys/bus/pci/devices"

// addressPattern is a PCI address in sysfs: domain, bus, device, function.
var addressPattern = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// Place is where a GPU is plugged in. The zero value is an unknown place.
type Place struct {
	// NUMANode is nil if the machine has none, or does not report it.
	NUMANode *int
	// Switch is the address of the upstream port of the nearest PCIe switch, "" for none.
	Switch string
}

// ReadPlace returns the place of a device. busID is an address as NVML writes it, such as 00000000:0E:00.0.
func ReadPlace(root, busID string) Place {
	device := filepath.Join(root, sysfsAddress(busID))
	var place Place
	if text, err := os.ReadFile(filepath.Join(device, "numa_node")); err == nil {
		if node, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && node >= 0 {
			place.NUMANode = &node
		}
	}
	path, err := filepath.EvalSymlinks(device)
	if err != nil {
		return place
	}
	// …/pci0000:00/ROOT PORT/UPSTREAM/DOWNSTREAM/CARD: a switch has an upstream port, and a downstream one for each device.
	var bridges []string
	for part := range strings.SplitSeq(filepath.Dir(path), string(filepath.Separator)) {
		if addressPattern.MatchString(part) {
			bridges = append(bridges, part)
		}
	}
	if len(bridges) >= 3 {
		place.Switch = bridges[len(bridges)-2]
	}
	return place
}

// sysfsAddress converts an address of NVML to sysfs' spelling: a domain of four digits if that is enough, and lower case.
func sysfsAddress(busID string) string {
	busID = strings.ToLower(busID)
	if domain, rest, ok := strings.Cut(busID, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return busID
}

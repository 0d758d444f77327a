//go:build cgo

package nvml

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/hardware/toolkit"
)

// nodePattern matches the device node of a GPU: its number is the minor number, and not the index.
var nodePattern = regexp.MustCompile(`/nvidia[0-9]+$`)

// Edits returns what NVIDIA's container toolkit specifies for containers. A spec describes the time when it was written: the numbers of device nodes
// change when a GPU is added, removed or replaced, and a container would get another GPU. So they are compared with the driver's.
func (l *Library) Edits(uuids []string) (specs.ContainerEdits, error) {
	edits, err := l.specs.Edits(uuids)
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	named := map[string]bool{}
	for _, node := range edits.DeviceNodes {
		if name := nodePattern.FindString(node.Path); name != "" {
			named[name] = true
		}
	}
	made := slices.ContainsFunc(uuids, func(uuid string) bool { return l.specs.Source(uuid) == toolkit.Made })
	if len(named) == 0 && !made {
		return edits, nil // a platform without such nodes
	}
	want := map[string]bool{}
	for _, uuid := range uuids {
		number, known := (*l.minors.Load())[uuid]
		if !known {
			return edits, nil // the driver does not say it
		}
		want[fmt.Sprintf("/nvidia%d", number)] = true
	}
	if maps.Equal(want, named) {
		return edits, nil
	}
	if made {
		return specs.ContainerEdits{}, fmt.Errorf("the machine has the device nodes %q for %s, and the driver %s: nvidia-smi, run as root, makes them",
			deviceNodePaths(named), strings.Join(uuids, ", "), deviceNodePaths(want))
	}
	return specs.ContainerEdits{}, fmt.Errorf("the CDI spec of NVIDIA's container toolkit has %s for %s, and the driver has %s: run "+
		"nvidia-ctk cdi generate --device-name-strategy=uuid --output=/var/run/cdi/nvidia.yaml again", deviceNodePaths(named), strings.Join(uuids, ", "), deviceNodePaths(want))
}

// Source returns where [Library.Edits] of a GPU or slice are from.
func (l *Library) Source(uuid string) string { return l.specs.Source(uuid) }

func deviceNodePaths(names map[string]bool) string {
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		paths = append(paths, "/dev"+name)
	}
	return strings.Join(paths, ", ")
}

// noteMinors caches the numbers of device nodes, by UUID of the GPU or slice. A start that needs them must not wait for a driver that hangs.
func (l *Library) noteMinors(reads []reading) {
	minors := maps.Clone(*l.minors.Load())
	for i := range reads {
		card := &reads[i].gpu
		if card.Minor == nil {
			continue
		}
		minors[card.UUID] = *card.Minor
		for _, slice := range card.Slices {
			minors[slice.UUID] = *card.Minor
		}
	}
	l.minors.Store(&minors)
}

// Package checkpoint reads the state of kubelet's device manager: which container has which devices of device plugins, and the plugin's answer when
// they were allocated.
//
// The file is internal to kubelet. It is the only source for the container of a PreStartContainer call: kubelet's PodResources have neither plain
// init containers nor UIDs, nor the plugin's answer. So a test pins its format against kubelet's own code, and unexpected content is an error, never
// an empty answer.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// FileName is the file's name in kubelet's folder of device plugins.
const FileName = "kubelet_internal_checkpoint"

// Claim is what one container has of one resource.
type Claim struct {
	Pod       types.UID
	Container string
	Resource  string
	// Slots are the devices that kubelet gave to the container, sorted.
	Slots []string
	// Name is the CDI device in the plugin's answer, without the kind; "" if the answer has none of that kind, as with another device plugin.
	Name string
}

type file struct {
	Data *struct {
		PodDeviceEntries []entry
		// RegisteredDevices are by resource, also of plugins that are away.
		RegisteredDevices map[string][]string
	}
}

type entry struct {
	PodUID        string
	ContainerName string
	ResourceName  string
	// DeviceIDs are by NUMA node, -1 where the plugin names none.
	DeviceIDs map[string][]string
	// AllocResp is a ContainerAllocateResponse in protobuf.
	AllocResp []byte
}

// IsRegistered reports whether a plugin of a resource has reported devices to kubelet, whether or not it is there now. kubelet forgets it some minutes
// after the plugin went away.
func IsRegistered(data []byte, resource string) bool {
	var parsed file
	if err := json.Unmarshal(data, &parsed); err != nil || parsed.Data == nil {
		return false
	}
	_, ok := parsed.Data.RegisteredDevices[resource]
	return ok
}

// Parse returns the claims of some resources. kind is the CDI kind of the names to look for, such as g8s.host/gpu.
func Parse(data []byte, kind string, resources ...string) ([]Claim, error) {
	var parsed file
	if err := json.Unmarshal(data, &parsed); err != nil {
		return nil, fmt.Errorf("reading kubelet's checkpoint: %w", err)
	}
	if parsed.Data == nil {
		return nil, errors.New("reading kubelet's checkpoint: it has no Data: this version of kubelet writes another format")
	}
	var claims []Claim
	for i := range parsed.Data.PodDeviceEntries {
		entry := &parsed.Data.PodDeviceEntries[i]
		if entry.ResourceName == "" {
			return nil, errors.New("reading kubelet's checkpoint: an entry without a resource: this version of kubelet writes another format")
		}
		if !slices.Contains(resources, entry.ResourceName) {
			continue
		}
		claim, err := entry.parseClaim(kind)
		if err != nil {
			return nil, fmt.Errorf("reading kubelet's checkpoint: pod %s, container %s: %w", entry.PodUID, entry.ContainerName, err)
		}
		claims = append(claims, claim)
	}
	return claims, nil
}

func (e *entry) parseClaim(kind string) (Claim, error) {
	claim := Claim{Pod: types.UID(e.PodUID), Container: e.ContainerName, Resource: e.ResourceName}
	for _, ids := range e.DeviceIDs {
		claim.Slots = append(claim.Slots, ids...)
	}
	slices.Sort(claim.Slots)
	if claim.Pod == "" || claim.Container == "" || len(claim.Slots) == 0 {
		return Claim{}, errors.New("an entry without a pod, a container or devices: this version of kubelet writes another format")
	}
	var answer deviceplugin.ContainerAllocateResponse
	if err := proto.Unmarshal(e.AllocResp, &answer); err != nil {
		return Claim{}, fmt.Errorf("the answer of Allocate: %w", err)
	}
	for _, device := range answer.CdiDevices {
		if name, ok := strings.CutPrefix(device.Name, kind+"="); ok {
			claim.Name = name
		}
	}
	return claim, nil
}

package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// assignmentVersion is the version of the annotation that we write, and the only one that we read.
const assignmentVersion = 1

// maxAssignmentSize bounds the annotation: MaxContainers with MaxGPUs devices each, and their names.
const maxAssignmentSize = 256 << 10

// Assignment is the devices that the containers of a pod hold, by container name.
type Assignment map[string][]Device

// Device is one GPU as a container holds it.
type Device struct {
	// UUID identifies the GPU; see [GPU].
	UUID string `json:"uuid"`
	// Index is the driver's number of the GPU when it was chosen. It is for people: programs identify GPUs by UUID.
	Index int `json:"index"`
	// MemoryMiB is the memory that the container has of a shared GPU; 0 is the whole GPU.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
}

// ParseAssignment reads which GPUs a pod holds from its annotation g8s.host/gpu-devices; see [ParseChoice]. A pod that has
// slices alone holds none.
func ParseAssignment(text string) (Assignment, error) {
	choice, err := ParseChoice(text)
	return choice.GPUs, err
}

// Encode writes the assignment in the form that [ParseAssignment] reads. Equal assignments give equal text.
func (as Assignment) Encode() (string, error) { return (&Choice{GPUs: as}).Encode() }

// Validate checks an assignment independent of any pod.
func (as Assignment) Validate() error {
	if len(as) == 0 || len(as) > MaxContainers {
		return fmt.Errorf("%d containers, want 1 to %d", len(as), MaxContainers)
	}
	var errs []error
	for name, devices := range as {
		if len(validation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, fmt.Errorf("%.70q is no container name", name))
		} else if err := validateDevices(devices); err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", name, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func validateDevices(devices []Device) error {
	if len(devices) == 0 || len(devices) > MaxGPUs {
		return fmt.Errorf("%d devices, want 1 to %d", len(devices), MaxGPUs)
	}
	for i := range devices {
		device := &devices[i]
		switch {
		case !uuidSpelling.allowsName(device.UUID):
			return fmt.Errorf("uuid is %.140q, want 1 to 128 letters, digits or any of . _ : / -", device.UUID)
		case device.Index < 0 || device.Index > maxIndex:
			return fmt.Errorf("index is %d, want 0 to %d", device.Index, maxIndex)
		case device.MemoryMiB < 0 || device.MemoryMiB > maxMemoryMiB:
			return fmt.Errorf("memoryMiB is %d, want 0 to %d", device.MemoryMiB, maxMemoryMiB)
		case slices.ContainsFunc(devices[:i], func(other Device) bool { return other.UUID == device.UUID }):
			return fmt.Errorf("device %s is there twice", device.UUID)
		}
	}
	return nil
}

// BuildAssignment names the GPUs of an allocation, for the annotation of the pod. The demand is the one that
// the allocation was made for.
func (a *Allocator) BuildAssignment(d *Demand, al *Allocation) Assignment {
	assignment := make(Assignment, len(d.Containers))
	for i := range d.Containers {
		var devices []Device
		for _, card := range al.containers[i].Positions() {
			device := Device{UUID: a.inventory.GPUs[card].UUID, Index: a.inventory.GPUs[card].Index}
			if al.Shared.Has(card) {
				device.MemoryMiB = al.ShareMiB
			}
			devices = append(devices, device)
		}
		assignment[d.Containers[i].Name] = devices
	}
	return assignment
}

package gpu

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
	kjson "sigs.k8s.io/json"
)

// SliceAssignment is the MIG slices that the containers of a pod hold, by container name.
type SliceAssignment map[string][]HeldSlice

// HeldSlice is a MIG slice as a container holds it.
type HeldSlice struct {
	// UUID identifies the slice; see [GPUSlice].
	UUID    string `json:"uuid"`
	Profile string `json:"profile"`
	// ParentUUID is the UUID of its GPU, and GPU the driver's number of that when it was chosen.
	ParentUUID string `json:"card"`
	GPU        int    `json:"gpu"`
}

// Choice is everything chosen for the containers of a pod: GPUs, and MIG slices.
type Choice struct {
	GPUs   Assignment
	Slices SliceAssignment
}

// choiceJSON is the written form. A pod without slices has the form that predates slices.
type choiceJSON struct {
	Version    int             `json:"version"`
	Containers Assignment      `json:"containers,omitempty"`
	Slices     SliceAssignment `json:"slices,omitempty"`
}

// ParseChoice reads the annotation g8s.host/gpu-devices, JSON such as
//
//	{"version":1,"containers":{"train":[{"uuid":"GPU-5f1e","index":0},{"uuid":"GPU-9c07","index":1}]}}
//	{"version":1,"slices":{"notebook":[{"uuid":"MIG-03ac","profile":"1g.10gb","card":"GPU-7d21","gpu":2}]}}
//
// Only the scheduler writes it, so everything else is refused: unknown or duplicate fields, names that no container
// can have, a GPU or slice that one container has twice. Slices have a field of their own, so that readers without support
// for slices refuse them, rather than mistake them for GPUs.
func ParseChoice(text string) (Choice, error) {
	if len(text) > maxAssignmentSize {
		return Choice{}, fmt.Errorf("%d bytes, want at most %d", len(text), maxAssignmentSize)
	}
	var parsed choiceJSON
	strict, err := kjson.UnmarshalStrict([]byte(text), &parsed)
	if err := cmp.Or(err, errors.Join(strict...)); err != nil {
		return Choice{}, err
	}
	if parsed.Version != assignmentVersion {
		return Choice{}, fmt.Errorf("version is %d, want %d", parsed.Version, assignmentVersion)
	}
	choice := Choice{GPUs: parsed.Containers, Slices: parsed.Slices}
	if err := choice.Validate(); err != nil {
		return Choice{}, err
	}
	return choice, nil
}

// Encode writes the choice in the form that [ParseChoice] reads. Equal choices give equal text.
func (c *Choice) Encode() (string, error) {
	if err := c.Validate(); err != nil {
		return "", fmt.Errorf("encoding the assignment: %w", err)
	}
	text, err := json.Marshal(choiceJSON{Version: assignmentVersion, Containers: c.GPUs, Slices: c.Slices})
	if err != nil {
		return "", fmt.Errorf("encoding the assignment: %w", err)
	}
	return string(text), nil
}

// Validate checks a choice independent of any pod.
func (c *Choice) Validate() error {
	if len(c.Slices) == 0 {
		return c.GPUs.Validate()
	}
	var errs []error
	if len(c.GPUs) > 0 {
		errs = append(errs, c.GPUs.Validate())
	}
	return errors.Join(append(errs, c.Slices.validate())...)
}

func (as SliceAssignment) validate() error {
	if len(as) > MaxContainers {
		return fmt.Errorf("%d containers have slices, want at most %d", len(as), MaxContainers)
	}
	var errs []error
	for name, held := range as {
		if len(validation.IsDNS1123Label(name)) > 0 {
			errs = append(errs, fmt.Errorf("%.70q is no container name", name))
		} else if err := validateHeld(held); err != nil {
			errs = append(errs, fmt.Errorf("container %s: %w", name, err))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func validateHeld(held []HeldSlice) error {
	if len(held) == 0 || len(held) > maxSlices {
		return fmt.Errorf("%d slices, want 1 to %d", len(held), maxSlices)
	}
	seen := make(map[string]bool, len(held))
	for i := range held {
		slice := &held[i]
		known := GPUSlice{UUID: slice.UUID, Profile: slice.Profile}
		if err := known.validate(); err != nil {
			return err
		}
		switch {
		case !uuidSpelling.allowsName(slice.ParentUUID):
			return fmt.Errorf("card is %.140q, want 1 to 128 letters, digits or any of . _ : / -", slice.ParentUUID)
		case slice.GPU < 0 || slice.GPU > maxIndex:
			return fmt.Errorf("gpu is %d, want 0 to %d", slice.GPU, maxIndex)
		case seen[slice.UUID]:
			return fmt.Errorf("slice %s is there twice", slice.UUID)
		}
		seen[slice.UUID] = true
	}
	return nil
}

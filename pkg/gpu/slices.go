package gpu

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Bounds of the slice annotation. A GPU has at most seven slices today.
const (
	maxSlices     = 8 * MaxGPUs
	maxSlicesSize = 256 << 10
	slicesVersion = 1
)

// Slice is a MIG slice of a GPU, and the pod that has it. The scheduler chooses slices by the node's inventory; this is what the node's agent reports
// that containers received.
type Slice struct {
	// UUID identifies the slice: MIG-….
	UUID string `json:"uuid"`
	// Profile is NVIDIA's name for its size, such as 1g.10gb.
	Profile string `json:"profile"`
	// ParentUUID is the UUID of the GPU, and GPU the driver's number of it.
	ParentUUID string `json:"card"`
	GPU        int    `json:"gpu"`
	// MemoryMiB is the memory of the slice, 0 where it is not known.
	MemoryMiB int64 `json:"memoryMiB,omitempty"`
	// Health and Since are those of the GPU; see [GPU]. "" is unknown, as for a slice that a pod names and its node does not report.
	Health string    `json:"health"`
	Since  time.Time `json:"since,omitzero"`
	// Pod is the UID of the pod that has it, "" for none.
	Pod types.UID `json:"pod,omitempty"`
}

type slicesJSON struct {
	Version int     `json:"version"`
	Slices  []Slice `json:"slices"`
}

// ParseSlices reads the annotation g8s.host/gpu-slices, JSON such as
//
//	{"version":1,"slices":[
//	 {"uuid":"MIG-7c2e","profile":"1g.10gb","card":"GPU-5f1e","gpu":0,"memoryMiB":9728,"health":"Healthy","pod":"0b5c…"}]}
//
// Fields of later writers are ignored, as in an inventory. Slices come back in order of GPU and UUID.
func ParseSlices(text string) ([]Slice, error) {
	if len(text) > maxSlicesSize {
		return nil, fmt.Errorf("%d bytes, want at most %d", len(text), maxSlicesSize)
	}
	var parsed slicesJSON
	strict, err := kjson.UnmarshalStrict([]byte(text), &parsed, kjson.DisallowDuplicateFields)
	if err := cmp.Or(err, errors.Join(strict...)); err != nil {
		return nil, err
	}
	if parsed.Version != slicesVersion {
		return nil, fmt.Errorf("version is %d, want %d", parsed.Version, slicesVersion)
	}
	for i := range parsed.Slices {
		parsed.Slices[i].Since = parsed.Slices[i].Since.UTC()
	}
	slices.SortStableFunc(parsed.Slices, func(a, b Slice) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.UUID, b.UUID)) })
	return parsed.Slices, validateSlices(parsed.Slices)
}

// EncodeSlices writes slices in the form that [ParseSlices] reads. Equal slices give equal text.
func EncodeSlices(all []Slice) (string, error) {
	if err := validateSlices(all); err != nil {
		return "", fmt.Errorf("encoding MIG slices: %w", err)
	}
	text, err := json.Marshal(slicesJSON{Version: slicesVersion, Slices: append([]Slice{}, all...)})
	if err != nil {
		return "", fmt.Errorf("encoding MIG slices: %w", err)
	}
	return string(text), nil
}

func validateSlices(all []Slice) error {
	if len(all) > maxSlices {
		return fmt.Errorf("%d slices, want at most %d", len(all), maxSlices)
	}
	seen := make(map[string]bool, len(all))
	var errs []error
	for i := range all {
		if err := all[i].validate(); err != nil {
			errs = append(errs, fmt.Errorf("slices[%d]: %w", i, err))
		}
		if seen[all[i].UUID] {
			errs = append(errs, fmt.Errorf("slices[%d]: uuid %q is there twice", i, all[i].UUID))
		}
		seen[all[i].UUID] = true
	}
	return errors.Join(errs...)
}

func (s *Slice) validate() error {
	switch {
	case !uuidSpelling.allowsName(s.UUID):
		return fmt.Errorf("uuid is %.140q, want 1 to 128 letters, digits or any of . _ : / -", s.UUID)
	case !profileSpelling.allowsName(s.Profile):
		return fmt.Errorf("profile is %.80q, want a name such as 1g.10gb", s.Profile)
	case !podUIDSpelling.allowsName(string(s.Pod)):
		return fmt.Errorf("pod is %.80q, want a UID or nothing", s.Pod)
	}
	card := GPU{UUID: s.ParentUUID, Index: s.GPU, MemoryMiB: s.MemoryMiB, Health: s.Health, Since: s.Since}
	if err := card.validate(); err != nil {
		return fmt.Errorf("its card: %w", err)
	}
	return nil
}

// SlicesOf returns the MIG slices of a node, none if it reports no readable ones.
func SlicesOf(node *corev1.Node) []Slice {
	text, ok := node.Annotations[names.AnnotationSlices]
	if !ok {
		return nil
	}
	all, err := ParseSlices(text)
	if err != nil {
		return nil
	}
	return all
}

// SlicesUnder returns the MIG slices that the node reports for a pod. If it reports none yet, it returns those that the scheduler chose.
func SlicesUnder(node *corev1.Node, pod types.UID, chosen []Slice) []Slice {
	all := SlicesOf(node)
	told := slices.DeleteFunc(slices.Clone(all), func(s Slice) bool { return s.Pod != pod || pod == "" })
	if len(told) > 0 {
		return told
	}
	out := slices.Clone(chosen)
	for i := range out {
		if at := slices.IndexFunc(all, func(s Slice) bool { return s.UUID == out[i].UUID }); at >= 0 {
			out[i] = all[at]
			out[i].Pod = pod
		}
	}
	return out
}

// ChosenSlices returns the MIG slices that the scheduler chose for a pod, in order of GPU and UUID, each once. Their memory and health are not on the
// pod.
func ChosenSlices(pod *corev1.Pod) []Slice {
	choice, err := ParseChoice(pod.Annotations[names.AnnotationGPUDevices])
	if err != nil {
		return nil
	}
	var out []Slice
	for _, held := range choice.Slices {
		for _, s := range held {
			out = append(out, Slice{UUID: s.UUID, Profile: s.Profile, ParentUUID: s.ParentUUID, GPU: s.GPU, Pod: pod.UID})
		}
	}
	slices.SortFunc(out, func(a, b Slice) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), cmp.Compare(a.UUID, b.UUID)) })
	return slices.CompactFunc(out, func(a, b Slice) bool { return a.UUID == b.UUID })
}

// HeldSlices returns the MIG slices of a node with the holder of each: the one that the node reports, else the pod on the node that the slice was
// chosen for.
func HeldSlices(node *corev1.Node, pods []*corev1.Pod) []Slice {
	all := SlicesOf(node)
	if len(all) == 0 {
		return nil
	}
	told, chosen := map[types.UID]bool{}, map[string]types.UID{}
	for i := range all {
		told[all[i].Pod] = true
	}
	for _, pod := range pods {
		if HasEnded(pod) || told[pod.UID] {
			continue
		}
		for _, slice := range ChosenSlices(pod) {
			chosen[slice.UUID] = pod.UID
		}
	}
	for i := range all {
		all[i].Pod = cmp.Or(all[i].Pod, chosen[all[i].UUID])
	}
	return all
}

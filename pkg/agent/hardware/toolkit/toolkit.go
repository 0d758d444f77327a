// Package toolkit finds what makes GPUs usable in containers in the CDI specs of NVIDIA's container toolkit: device nodes, the driver's libraries,
// hooks. The toolkit supports every driver, so the agent does not have to.
package toolkit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/yaml"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// kind is that of the toolkit's specs.
const kind = "nvidia.com/gpu"

// Folders are where the toolkit writes its specs. The first takes precedence over the second, as it does for runtimes: the first is cleared by a
// restart of the machine, and the second may be for another driver, or for other GPUs. root is where the machine's own / is mounted.
func Folders(root string) []string { return []string{"/var/run/cdi", filepath.Join(root, "etc/cdi")} }

// Specs are the specs of some folders. They are read again when they change. It is safe for concurrent use.
type Specs struct {
	folders []string
	// skip begins the names of files that are not the toolkit's.
	skip string
	// make returns a spec of GPUs that no file names; nil without a generator.
	make func() (*specs.Spec, error)

	mu    sync.Mutex
	files map[string]file
}

type file struct {
	changed time.Time
	size    int64
	spec    *specs.Spec
}

// NewSpecs returns the specs of some folders, in order, without files whose name begins with skip: our own, which change all the time.
func NewSpecs(folders []string, skip string) *Specs { return &Specs{folders: folders, skip: skip} }

// OrMake adds a generated spec for GPUs that no file names.
func (s *Specs) OrMake(make func() (*specs.Spec, error)) *Specs {
	s.make = make
	return s
}

// Made is the [Specs.Source] of GPUs that no file names.
const Made = "made by the agent"

// Edits returns what makes some GPUs or slices usable, by UUID. A GPU's number could be a name too, but numbers change with a restart, and then it
// would be another GPU.
func (s *Specs) Edits(uuids []string) (specs.ContainerEdits, error) {
	found, err := s.allSpecs()
	if err != nil {
		return specs.ContainerEdits{}, err
	}
	var edits specs.ContainerEdits
	var used []*specs.Spec
	for _, uuid := range uuids {
		_, spec, device := findDevice(found, uuid)
		if device == nil {
			return specs.ContainerEdits{}, s.missingError(uuid)
		}
		if !slices.Contains(used, spec) {
			used = append(used, spec)
			appendEdits(&edits, &spec.ContainerEdits)
		}
		appendEdits(&edits, &device.ContainerEdits)
	}
	return edits, nil
}

// Source returns the file that names a GPU or slice, or [Made]; "" if none does.
func (s *Specs) Source(uuid string) string {
	found, err := s.allSpecs()
	if err != nil {
		return ""
	}
	source, _, _ := findDevice(found, uuid)
	return source
}

// allSpecs returns the specs of the files, followed by the generated one.
func (s *Specs) allSpecs() ([]sourced, error) {
	found, err := s.readSpecs()
	if err != nil {
		return nil, fmt.Errorf("reading the CDI specs of NVIDIA's container toolkit: %w", err)
	}
	if s.make != nil {
		if spec, err := s.make(); err == nil {
			found = append(found, sourced{Made, spec})
		}
	}
	return found, nil
}

// missingError explains why there is no spec of a GPU.
func (s *Specs) missingError(uuid string) error {
	why := ""
	if s.make != nil {
		if _, err := s.make(); err != nil {
			why = fmt.Sprintf(", and the agent cannot make one (%v)", err)
		}
	}
	return fmt.Errorf("no CDI spec in %v has the device %s=%s%s: install NVIDIA's container toolkit, and run "+
		"nvidia-ctk cdi generate --device-name-strategy=uuid --output=/var/run/cdi/nvidia.yaml", s.folders, kind, uuid, why)
}

// sourced is a spec, and where it is from.
type sourced struct {
	source string
	spec   *specs.Spec
}

func findDevice(found []sourced, name string) (string, *specs.Spec, *specs.Device) {
	for _, one := range found {
		for i := range one.spec.Devices {
			if one.spec.Devices[i].Name == name {
				return one.source, one.spec, &one.spec.Devices[i]
			}
		}
	}
	return "", nil, nil
}

// appendEdits appends edits without duplicates: each device of a spec lists the nodes that all of them need.
func appendEdits(to, from *specs.ContainerEdits) {
	for _, variable := range from.Env {
		if !slices.Contains(to.Env, variable) {
			to.Env = append(to.Env, variable)
		}
	}
	for _, node := range from.DeviceNodes {
		if !slices.ContainsFunc(to.DeviceNodes, func(n *specs.DeviceNode) bool { return n.Path == node.Path }) {
			to.DeviceNodes = append(to.DeviceNodes, node)
		}
	}
	for _, mount := range from.Mounts {
		if !slices.ContainsFunc(to.Mounts, func(m *specs.Mount) bool { return m.ContainerPath == mount.ContainerPath }) {
			to.Mounts = append(to.Mounts, mount)
		}
	}
	for _, id := range from.AdditionalGIDs {
		if !slices.Contains(to.AdditionalGIDs, id) {
			to.AdditionalGIDs = append(to.AdditionalGIDs, id)
		}
	}
	to.Hooks = append(to.Hooks, from.Hooks...)
	if from.IntelRdt != nil {
		to.IntelRdt = from.IntelRdt
	}
}

// readSpecs returns the toolkit's specs, in the order of their files.
func (s *Specs) readSpecs() ([]sourced, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []sourced
	seen := map[string]file{}
	for _, folder := range s.folders {
		paths, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			if extension := filepath.Ext(path); extension != ".json" && extension != ".yaml" || strings.HasPrefix(filepath.Base(path), s.skip) {
				continue
			}
			read, err := s.loadFile(path)
			if os.IsNotExist(err) {
				continue // removed since
			}
			if err != nil {
				return nil, err
			}
			seen[path] = read
			if read.spec.Kind == kind {
				found = append(found, sourced{path, read.spec})
			}
		}
	}
	s.files = seen
	return found, nil
}

// loadFile returns a spec, from the cache if its file has not changed. The caller holds the lock.
func (s *Specs) loadFile(path string) (file, error) {
	info, err := os.Stat(path)
	if err != nil {
		return file{}, err
	}
	if known, ok := s.files[path]; ok && known.changed.Equal(info.ModTime()) && known.size == info.Size() {
		return known, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return file{}, err
	}
	read := file{changed: info.ModTime(), size: info.Size(), spec: &specs.Spec{}}
	if err := yaml.Unmarshal(data, read.spec); err != nil || read.spec.Kind != kind {
		read.spec = &specs.Spec{} // a file of another vendor, whose format is up to the runtime
	}
	return read, nil
}

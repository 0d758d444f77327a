// Package hookless makes a CDI spec of NVIDIA's container toolkit work without the toolkit's hooks. It is pure.
//
// The toolkit mounts a library under the name of its file, libcuda.so.580.159.04, and its hooks then make the links libcuda.so.1 and
// libcuda.so in the container and write its /etc/ld.so.cache. Programs ask for a library by its soname. So here each is mounted under its soname, in folders
// that the loaders of glibc look into without a cache: those of Debian and of what comes from it, and those of Red Hat and of
// others. A variable LD_LIBRARY_PATH would do with one folder, and take the place of the image's own, of which many need theirs.
package hookless

import (
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	specs "tags.cncf.io/container-device-interface/specs-go"
)

// libraryPattern is a file of a shared library with a version.
var libraryPattern = regexp.MustCompile(`^(lib.+\.so)\.[0-9.]+$`)

// linkedLibraries are libraries that programs also open by the name without a number, for which the toolkit creates links.
var linkedLibraries = []string{"libcuda.so"}

// hookEnvPrefix is the prefix of variables that only the toolkit's hooks read.
const hookEnvPrefix = "NVIDIA_CTK_"

// libraryFolders returns the folders in which loaders of glibc look without a cache, by the machine's processor.
func libraryFolders(architecture string) []string {
	triple := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[architecture]
	return []string{"/usr/lib/" + triple, "/usr/lib64"}
}

// CompleteSpec returns a spec that needs no hooks. machine is where the machine's / is mounted here, which the runtime sees as /. soname returns the name
// under which programs ask for the library in a file, "" for none.
func CompleteSpec(spec *specs.Spec, machine string, soname func(path string) string) *specs.Spec {
	out := *spec
	out.ContainerEdits = completeEdits(&spec.ContainerEdits, machine, soname)
	out.Devices = slices.Clone(spec.Devices)
	for i := range out.Devices {
		out.Devices[i].ContainerEdits = completeEdits(&out.Devices[i].ContainerEdits, machine, soname)
	}
	return &out
}

func completeEdits(edits *specs.ContainerEdits, machine string, soname func(string) string) specs.ContainerEdits {
	out := *edits
	out.Hooks = nil
	out.Env = slices.DeleteFunc(slices.Clone(edits.Env), func(variable string) bool { return strings.HasPrefix(variable, hookEnvPrefix) })
	out.DeviceNodes = nil
	for _, node := range edits.DeviceNodes {
		seen := *node
		seen.HostPath = machinePath(seen.HostPath, machine)
		out.DeviceNodes = append(out.DeviceNodes, &seen)
	}
	out.Mounts = nil
	for _, mount := range edits.Mounts {
		names := libraryNames(mount, soname)
		seen := *mount
		seen.HostPath = machinePath(seen.HostPath, machine)
		if len(names) == 0 {
			out.Mounts = append(out.Mounts, &seen)
			continue
		}
		for _, folder := range libraryFolders(runtime.GOARCH) {
			for _, name := range names {
				library := seen
				library.ContainerPath = filepath.Join(folder, name)
				out.Mounts = append(out.Mounts, &library)
			}
		}
	}
	return out
}

// libraryNames returns the names under which the loader is asked for a mounted file, none if it is not a library in the loader's folders: those in folders
// of their own, such as vdpau, are opened by their path.
func libraryNames(mount *specs.Mount, soname func(string) string) []string {
	base := filepath.Base(mount.HostPath)
	found := libraryPattern.FindStringSubmatch(base)
	if found == nil || filepath.Base(filepath.Dir(mount.HostPath)) == "vdpau" {
		return nil
	}
	name := soname(mount.HostPath)
	if name == "" {
		return nil
	}
	names := []string{name}
	if slices.Contains(linkedLibraries, found[1]) {
		names = append(names, found[1])
	}
	return names
}

// machinePath returns a path as the runtime sees it.
func machinePath(path, machine string) string {
	if machine == "/" {
		return path
	}
	rest, below := strings.CutPrefix(path, machine)
	if !below || !strings.HasPrefix(rest, "/") {
		return path
	}
	return rest
}

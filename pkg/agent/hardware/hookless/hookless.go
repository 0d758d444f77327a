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

// linkedFor are libraries that programs also open by the name without a number, for which the toolkit creates links.
var linkedFor = []string{"libcuda.so"}

// ofHooks is the prefix of variables that only the toolkit's hooks read.
const ofHooks = "NVIDIA_CTK_"

// folders returns the folders in which loaders of glibc look without a cache, by the machine's processor.
func folders(architecture string) []string {
	triple := map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}[architecture]
	return []string{"/usr/lib/" + triple, "/usr/lib64"}
}

// Complete returns a spec that needs no hooks. machine is where the machine's / is mounted here, which the runtime sees as /. soname returns the name
// under which programs ask for the library in a file, "" for none.
func Complete(spec *specs.Spec, machine string, soname func(path string) string) *specs.Spec {
	out := *spec
	out.ContainerEdits = complete(&spec.ContainerEdits, machine, soname)
	out.Devices = slices.Clone(spec.Devices)
	for i := range out.Devices {
		out.Devices[i].ContainerEdits = complete(&out.Devices[i].ContainerEdits, machine, soname)
	}
	return &out
}

func complete(edits *specs.ContainerEdits, machine string, soname func(string) string) specs.ContainerEdits {
	out := *edits
	out.Hooks = nil
	out.Env = slices.DeleteFunc(slices.Clone(edits.Env), func(variable string) bool { return strings.HasPrefix(variable, ofHooks) })
	out.DeviceNodes = nil
	for _, node := range edits.DeviceNodes {
		seen := *node
		seen.HostPath = onMachine(seen.HostPath, machine)
		out.DeviceNodes = append(out.DeviceNodes, &seen)
	}
	out.Mounts = nil
	for _, mount := range edits.Mounts {
		names := namesOf(mount, soname)
		seen := *mount
		seen.HostPath = onMachine(seen.HostPath, machine)
		if len(names) == 0 {
			out.Mounts = append(out.Mounts, &seen)
			continue
		}
		for _, folder := range folders(runtime.GOARCH) {
			for _, name := range names {
				library := seen
				library.ContainerPath = filepath.Join(folder, name)
				out.Mounts = append(out.Mounts, &library)
			}
		}
	}
	return out
}

// namesOf returns the names under which the loader is asked for a mounted file, none if it is not a library in the loader's folders: those in folders
// of their own, such as vdpau, are opened by their path.
func namesOf(mount *specs.Mount, soname func(string) string) []string {
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
	if slices.Contains(linkedFor, found[1]) {
		names = append(names, found[1])
	}
	return names
}

// onMachine returns a path as the runtime sees it.
func onMachine(path, machine string) string {
	if machine == "/" {
		return path
	}
	rest, below := strings.CutPrefix(path, machine)
	if !below || !strings.HasPrefix(rest, "/") {
		return path
	}
	return rest
}

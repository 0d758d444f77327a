package hookless

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"
)

// sonames are what the files of a driver say.
func sonames(path string) string {
	return map[string]string{
		"/host/opt/lib/libcuda.so.580.159.04":                  "libcuda.so.1",
		"/host/opt/lib/libnvidia-gpucomp.so.580.159.04":        "libnvidia-gpucomp.so.580.159.04",
		"/host/opt/lib/vdpau/libvdpau_nvidia.so.580.159.04":    "libvdpau_nvidia.so.1",
		"/host/opt/lib/libnvidia-ptxjitcompiler.so.580.159.04": "libnvidia-ptxjitcompiler.so.1",
	}[path]
}

func TestComplete(t *testing.T) {
	read := []string{"ro", "bind"}
	at := func(path string) *specs.Mount {
		return &specs.Mount{HostPath: "/host" + path, ContainerPath: path, Options: read}
	}
	spec := &specs.Spec{
		Version: "0.5.0", Kind: "nvidia.com/gpu",
		ContainerEdits: specs.ContainerEdits{
			Env:         []string{"NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_CTK_LIBCUDA_DIR=/opt/lib"},
			DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidiactl", HostPath: "/host/dev/nvidiactl"}},
			Mounts: []*specs.Mount{
				at("/opt/lib/libcuda.so.580.159.04"), at("/opt/lib/libnvidia-gpucomp.so.580.159.04"), at("/opt/lib/vdpau/libvdpau_nvidia.so.580.159.04"),
				at("/opt/lib/libstripped.so.580.159.04"), at("/usr/bin/nvidia-smi"),
			},
			Hooks: []*specs.Hook{{HookName: "createContainer", Path: "/usr/bin/nvidia-cdi-hook"}},
		},
		Devices: []specs.Device{{Name: "GPU-a", ContainerEdits: specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia0", HostPath: "/host/dev/nvidia0"}}}}},
	}
	got := CompleteSpec(spec, "/host", sonames)
	var places []string
	for _, mount := range got.ContainerEdits.Mounts {
		places = append(places, mount.HostPath+" "+mount.ContainerPath)
	}
	debian, redHat := libraryFolders(runtime.GOARCH)[0], "/usr/lib64"
	want := []string{
		"/opt/lib/libcuda.so.580.159.04 " + debian + "/libcuda.so.1",
		"/opt/lib/libcuda.so.580.159.04 " + debian + "/libcuda.so",
		"/opt/lib/libcuda.so.580.159.04 " + redHat + "/libcuda.so.1",
		"/opt/lib/libcuda.so.580.159.04 " + redHat + "/libcuda.so",
		"/opt/lib/libnvidia-gpucomp.so.580.159.04 " + debian + "/libnvidia-gpucomp.so.580.159.04",
		"/opt/lib/libnvidia-gpucomp.so.580.159.04 " + redHat + "/libnvidia-gpucomp.so.580.159.04",
		"/opt/lib/vdpau/libvdpau_nvidia.so.580.159.04 /opt/lib/vdpau/libvdpau_nvidia.so.580.159.04",
		"/opt/lib/libstripped.so.580.159.04 /opt/lib/libstripped.so.580.159.04",
		"/usr/bin/nvidia-smi /usr/bin/nvidia-smi",
	}
	if diff := cmp.Diff(want, places); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"NVIDIA_VISIBLE_DEVICES=void"}, got.ContainerEdits.Env); diff != "" || got.ContainerEdits.Hooks != nil {
		t.Errorf("hooks %v, environment (-want +got):\n%s", got.ContainerEdits.Hooks, diff)
	}
	if node := got.Devices[0].ContainerEdits.DeviceNodes[0]; node.HostPath != "/dev/nvidia0" || node.Path != "/dev/nvidia0" {
		t.Errorf("the card's node is %+v, want the one that the runtime sees", node)
	}
	if spec.ContainerEdits.Hooks == nil || spec.ContainerEdits.DeviceNodes[0].HostPath != "/host/dev/nvidiactl" {
		t.Error("what was given was changed")
	}
}

// TestPathsOfTheMachineItself stay as they are, and so do those that only begin alike.
func TestPathsOfTheMachineItself(t *testing.T) {
	for _, tc := range []struct{ path, machine, want string }{
		{"/usr/bin/nvidia-smi", "/", "/usr/bin/nvidia-smi"},
		{"/host/usr/bin/nvidia-smi", "/host", "/usr/bin/nvidia-smi"},
		{"/hostile/nvidia-smi", "/host", "/hostile/nvidia-smi"},
		{"", "/host", ""},
	} {
		if got := machinePath(tc.path, tc.machine); got != tc.want {
			t.Errorf("%s seen from %s is %s, want %s", tc.path, tc.machine, got, tc.want)
		}
	}
}

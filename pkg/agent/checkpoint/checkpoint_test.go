package checkpoint

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	kubelet "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
)

const (
	kind   = "g8s.host/gpu"
	golden = "testdata/kubelet-1.31-1.36.json"
)

var update = flag.Bool("update", false, "write "+golden+", by the code of kubelet in the version of go.mod")

// TestKubeletsOwnFormat reads what the code of kubelet itself writes, in the version that go.mod names.
func TestKubeletsOwnFormat(t *testing.T) {
	answer := func(names ...string) []byte {
		response := &deviceplugin.ContainerAllocateResponse{Envs: map[string]string{"A": "B"}}
		for _, name := range names {
			response.CdiDevices = append(response.CdiDevices, &deviceplugin.CDIDevice{Name: name})
		}
		data, err := proto.Marshal(response)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	data, err := kubelet.New([]kubelet.PodDevicesEntry{
		{PodUID: "u1", ContainerName: "main", ResourceName: "nvidia.com/gpu", DeviceIDs: kubelet.DevicesPerNUMA{-1: {"slot-10", "slot-2"}}, AllocResp: answer(kind + "=N1")},
		{PodUID: "u2", ContainerName: "main", ResourceName: "nvidia.com/gpu", DeviceIDs: kubelet.DevicesPerNUMA{0: {"slot-3"}, 1: {"slot-1"}}, AllocResp: answer("nvidia.com/gpu=0")},
		{PodUID: "u2", ContainerName: "main", ResourceName: "example.com/fpga", DeviceIDs: kubelet.DevicesPerNUMA{-1: {"f"}}, AllocResp: answer()},
	}, map[string][]string{"nvidia.com/gpu": {"slot-1"}, "example.com/away": {}}).MarshalCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(golden, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	understands(t, data)
}

// TestTheFormatOf131To136 reads what kubelets of 1.31 to 1.36 write, whose code for it is the same: they are served also when go.mod
// names a version that writes something else.
func TestTheFormatOf131To136(t *testing.T) {
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	understands(t, data)
}

// understands reads a file with the claims of two pods.
func understands(t *testing.T, data []byte) {
	t.Helper()
	claims, err := Parse(data, kind, "nvidia.com/gpu", "g8s.host/shared-gpu")
	if err != nil {
		t.Fatal(err)
	}
	want := []Claim{
		{Pod: "u1", Container: "main", Resource: "nvidia.com/gpu", Slots: []string{"slot-10", "slot-2"}, Name: "N1"},
		{Pod: "u2", Container: "main", Resource: "nvidia.com/gpu", Slots: []string{"slot-1", "slot-3"}},
	}
	if diff := cmp.Diff(want, claims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	for resource, want := range map[string]bool{"nvidia.com/gpu": true, "example.com/away": true, "example.com/fpga": false} {
		if got := IsRegistered(data, resource); got != want {
			t.Errorf("%s registered: %v, want %v", resource, got, want)
		}
	}
	if IsRegistered([]byte("{}"), "nvidia.com/gpu") || IsRegistered(nil, "nvidia.com/gpu") {
		t.Error("something is registered in a file that says nothing")
	}
}

// TestOtherFormats: a file that is not understood is never taken for one without claims.
func TestOtherFormats(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"nothing":                 {"", "unexpected end"},
		"half a file":             {`{"Data":{"PodDeviceEntries":[{"PodUID":"u`, "unexpected end"},
		"no data":                 {`{"v3":{"Entries":[]},"Checksum":1}`, "another format"},
		"devices as a list":       {`{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r","DeviceIDs":["d"]}]}}`, "cannot unmarshal"},
		"renamed devices":         {`{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r","Devices":{"-1":["d"]}}]}}`, "another format"},
		"a renamed resource":      {`{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","Resource":"r","DeviceIDs":{"-1":["d"]}}]}}`, "another format"},
		"a renamed pod":           {`{"Data":{"PodDeviceEntries":[{"Pod":"u","ContainerName":"c","ResourceName":"r","DeviceIDs":{"-1":["d"]}}]}}`, "another format"},
		"an answer of no meaning": {`{"Data":{"PodDeviceEntries":[{"PodUID":"u","ContainerName":"c","ResourceName":"r","DeviceIDs":{"-1":["d"]},"AllocResp":"/////w=="}]}}`, "the answer of Allocate"},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := Parse([]byte(tc.data), kind, "r")
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("claims %v, error %v; want an error with %q", claims, err, tc.want)
			}
		})
	}
}

// TestEmpty: a kubelet that has given nothing out yet.
func TestEmpty(t *testing.T) {
	claims, err := Parse([]byte(`{"Data":{"PodDeviceEntries":null,"RegisteredDevices":{}},"Checksum":3027544413}`), kind, "r")
	if err != nil || len(claims) != 0 {
		t.Errorf("claims %v, error %v; want none", claims, err)
	}
}

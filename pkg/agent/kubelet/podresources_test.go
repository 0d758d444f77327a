package kubelet

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"g8s.host/gpu-scheduler/pkg/agent/audit"
)

// lister is kubelet's side: one pod with two cards, told in two pieces, and a network card of another plugin.
type lister struct {
	podresources.UnimplementedPodResourcesListerServer
}

func (lister) pod() *podresources.PodResources {
	return &podresources.PodResources{Namespace: "team", Name: "one", Containers: []*podresources.ContainerResources{
		{Name: "main", CpuIds: []int64{3}, Devices: []*podresources.ContainerDevices{
			{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"slot-1"}}, {ResourceName: "vendor.com/nic", DeviceIds: []string{"nic-0"}},
			{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"slot-0"}},
		}},
		{Name: "waits", Devices: []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"slot-2"}}}},
	}}
}

func (l lister) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{l.pod()}}, nil
}

func (l lister) Get(_ context.Context, request *podresources.GetPodResourcesRequest) (*podresources.GetPodResourcesResponse, error) {
	if request.PodName == "gone" {
		return nil, errors.New("pod gone in namespace team not found")
	}
	return &podresources.GetPodResourcesResponse{PodResources: l.pod()}, nil
}

func (lister) GetAllocatableResources(context.Context, *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	return &podresources.AllocatableResourcesResponse{CpuIds: []int64{1}, Devices: []*podresources.ContainerDevices{
		{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"slot-0"}}, {ResourceName: "nvidia.com/gpu", DeviceIds: []string{"slot-1"}},
		{ResourceName: "vendor.com/nic", DeviceIds: []string{"nic-0"}},
	}}, nil
}

func TestPodResources(t *testing.T) {
	folder := t.TempDir()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(folder, "k.sock"))
	if err != nil {
		t.Fatal(err)
	}
	kubelet := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(kubelet, lister{})
	go func() { _ = kubelet.Serve(listener) }()
	defer kubelet.Stop()
	var broken error
	asked := 0
	p := &PodResources{Kubelet: filepath.Join(folder, "k.sock"), Socket: filepath.Join(folder, "g.sock"), Log: slog.New(slog.DiscardHandler),
		Held: func() (GPULookup, error) {
			asked++
			return func(pod types.NamespacedName, resource string, slots []string) []string {
				if pod.String() == "team/one" && resource == "nvidia.com/gpu" && strings.Join(slots, " ") == "slot-1 slot-0" {
					return []string{"GPU-a", "GPU-b"}
				}
				return nil
			}, broken
		},
		All: func(resource string) ([]string, bool) {
			return []string{"GPU-a", "GPU-b", "GPU-c"}, resource == "nvidia.com/gpu"
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient("unix://"+p.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := podresources.NewPodResourcesListerClient(conn)
	patient, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	list, err := client.List(patient, &podresources.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	if asked != 1 {
		t.Errorf("asked %d times which cards are held, for one list", asked)
	}
	const want = "vendor.com/nic nic-0, nvidia.com/gpu GPU-a GPU-b"
	if got := spellDevices(list.PodResources[0].Containers[0].Devices); got != want || list.PodResources[0].Containers[0].CpuIds[0] != 3 {
		t.Errorf("List: container main has %s, want %s and its CPUs", got, want)
	}
	if got := spellDevices(list.PodResources[0].Containers[1].Devices); got != "" {
		t.Errorf("List: a container that has not started has %s", got)
	}
	one, err := client.Get(patient, &podresources.GetPodResourcesRequest{})
	if err != nil || spellDevices(one.PodResources.Containers[0].Devices) != want {
		t.Errorf("Get: %v, %v", one, err)
	}
	all, err := client.GetAllocatableResources(patient, &podresources.AllocatableResourcesRequest{})
	if err != nil || spellDevices(all.Devices) != "nvidia.com/gpu GPU-a GPU-b GPU-c, vendor.com/nic nic-0" {
		t.Errorf("GetAllocatableResources: %v, %v", all, err)
	}
	broken = errors.New("no checkpoint")
	if _, err := client.List(patient, &podresources.ListPodResourcesRequest{}); err == nil || !strings.Contains(err.Error(), "no checkpoint") {
		t.Errorf("error %v: who is told of no cards takes them for free", err)
	}
	broken = nil
	if err := os.Remove(p.Socket); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); statSocket(p.Socket) == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the socket that somebody removed is not made again")
		}
	}
}

func spellDevices(devices []*podresources.ContainerDevices) string {
	var spelled []string
	for _, device := range devices {
		spelled = append(spelled, device.ResourceName+" "+strings.Join(device.DeviceIds, " "))
	}
	return strings.Join(spelled, ", ")
}

// TestLister: the slots of a container come together, sorted, and those of other plugins are left out.
func TestLister(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "k.sock")
	l, err := NewLister(socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	pods := []types.NamespacedName{{Namespace: "team", Name: "gone"}, {Namespace: "team", Name: "one"}}
	if listed, err := l.List(t.Context(), pods, []string{"nvidia.com/gpu"}); err == nil {
		t.Errorf("listed %+v without a kubelet, want an error: nothing would differ", listed)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(kubelet, lister{})
	go func() { _ = kubelet.Serve(listener) }()
	t.Cleanup(kubelet.Stop)
	want := []audit.Listed{
		{Namespace: "team", Pod: "one", Container: "main", Resource: "nvidia.com/gpu", Slots: []string{"slot-0", "slot-1"}},
		{Namespace: "team", Pod: "one", Container: "waits", Resource: "nvidia.com/gpu", Slots: []string{"slot-2"}},
	}
	var listed []audit.Listed
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) { // it tries again after a second
		if listed, err = l.List(t.Context(), pods, []string{"nvidia.com/gpu"}); err == nil {
			break
		}
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("error %v, listed (-want +got):\n%s", err, diff)
	}
}

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// GPULookup returns the GPUs behind the slots of a pod's container, by UUID. A container that has not been created yet has none.
type GPULookup func(pod types.NamespacedName, resource string, slots []string) []string

// PodResources serves kubelet's PodResources with GPUs in place of slots, for clients that report which pod uses which GPU, such as dcgm-exporter.
// Everything else is passed through.
type PodResources struct {
	podresources.UnimplementedPodResourcesListerServer

	// Kubelet is the socket of kubelet, and Socket the one to serve.
	Kubelet, Socket string
	// Held returns which GPUs are held now.
	Held func() (GPULookup, error)
	// All returns all GPUs of a resource, by UUID. known is false for resources of other plugins.
	All func(resource string) (uuids []string, known bool)
	Log *slog.Logger

	kubelet podresources.PodResourcesListerClient
}

var _ podresources.PodResourcesListerServer = (*PodResources)(nil)

// List returns all pods.
func (p *PodResources) List(ctx context.Context, request *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	answer, err := p.kubelet.List(ctx, request)
	if err != nil {
		return nil, err
	}
	held := sync.OnceValues(p.Held)
	for _, pod := range answer.PodResources {
		if err := p.translateSlots(pod, held); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// Get returns one pod.
func (p *PodResources) Get(ctx context.Context, request *podresources.GetPodResourcesRequest) (*podresources.GetPodResourcesResponse, error) {
	answer, err := p.kubelet.Get(ctx, request)
	if err != nil {
		return nil, err
	}
	if answer.PodResources == nil {
		return answer, nil
	}
	return answer, p.translateSlots(answer.PodResources, p.Held)
}

// GetAllocatableResources returns the devices that the node can allocate.
func (p *PodResources) GetAllocatableResources(ctx context.Context, request *podresources.AllocatableResourcesRequest) (*podresources.AllocatableResourcesResponse, error) {
	answer, err := p.kubelet.GetAllocatableResources(ctx, request)
	if err != nil {
		return nil, err
	}
	var devices []*podresources.ContainerDevices
	told := map[string]bool{}
	for _, device := range answer.Devices {
		uuids, known := p.All(device.ResourceName)
		switch {
		case !known:
			devices = append(devices, device)
		case !told[device.ResourceName]:
			told[device.ResourceName] = true
			devices = append(devices, &podresources.ContainerDevices{ResourceName: device.ResourceName, DeviceIds: uuids})
		}
	}
	answer.Devices = devices
	return answer, nil
}

// translateSlots replaces a pod's slots with GPUs. It reads what is held only if the pod has any.
func (p *PodResources) translateSlots(pod *podresources.PodResources, held func() (GPULookup, error)) error {
	name := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	for _, container := range pod.Containers {
		// kubelet may list the slots of a resource in several pieces.
		slots := map[string][]string{}
		var devices []*podresources.ContainerDevices
		var order []string
		for _, device := range container.Devices {
			if _, ours := p.All(device.ResourceName); !ours {
				devices = append(devices, device)
				continue
			}
			if slots[device.ResourceName] == nil {
				order = append(order, device.ResourceName)
			}
			slots[device.ResourceName] = append(slots[device.ResourceName], device.DeviceIds...)
		}
		for _, resource := range order {
			cards, err := held()
			if err != nil {
				return status.Error(codes.Unavailable, err.Error())
			}
			if uuids := cards(name, resource, slots[resource]); len(uuids) > 0 {
				devices = append(devices, &podresources.ContainerDevices{ResourceName: resource, DeviceIds: uuids})
			}
		}
		container.Devices = devices
	}
	return nil
}

// Run serves until ctx ends. A socket that cannot be served is retried: it is for other clients, and no container waits for it.
func (p *PodResources) Run(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+p.Kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return fmt.Errorf("connecting to kubelet's PodResources: %w", err)
	}
	defer func() { _ = conn.Close() }()
	p.kubelet = podresources.NewPodResourcesListerClient(conn)
	for {
		wait := retryDelay
		if err := p.serveSocket(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("Serving PodResources", "socket", p.Socket, "error", err)
			wait = droppedDelay
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// maxMessage is the most that kubelet may answer with, as its own clients have it.
const maxMessage = 16 << 20

// serveSocket serves until ctx ends, or until the socket can no longer be found.
func (p *PodResources) serveSocket(ctx context.Context) error {
	if err := errors.Join(os.MkdirAll(filepath.Dir(p.Socket), 0o750), os.RemoveAll(p.Socket)); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", p.Socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		_ = listener.Close() // as in Plugin.serveKubelet
	}()
	own := statSocket(p.Socket)
	ticker := time.NewTicker(socketCheckInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return err
		case <-ticker.C:
			if !sameSocket(own, statSocket(p.Socket)) {
				p.Log.Info("The socket of PodResources is gone, or another one is in its place", "socket", p.Socket)
				return nil
			}
		}
	}
}

// socketCheckInterval is the interval at which the socket's existence is checked: wiping kubelet's folder removes it.
const socketCheckInterval = time.Second

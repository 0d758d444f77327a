// Package kubelet is the agent's side of kubelet's interfaces: the device plugin that offers slots, and the PodResources for other clients.
package kubelet

import (
	"context"
	"crypto/rand"
	"log/slog"

	"google.golang.org/grpc"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Slot is the unit that kubelet counts: a device that stands for no particular GPU.
type Slot struct {
	ID      string
	Healthy bool
}

// Slots are the current slots of one resource. changed is closed when they change.
type Slots func() (slots []Slot, changed <-chan struct{})

// SlotPrefix begins the IDs of all slots, by which devices of other plugins are told apart.
const SlotPrefix = "slot-"

// Start is called before kubelet creates a container with some slots of a resource. An error prevents its start.
type Start func(ctx context.Context, resource string, slots []string) error

// Plugin offers the slots of one resource.
type Plugin struct {
	deviceplugin.UnimplementedDevicePluginServer

	// Resource is the resource's name.
	Resource string
	// Kind is the CDI kind of the device names in responses to Allocate.
	Kind string
	// Folder is kubelet's folder of device plugins.
	Folder string
	Slots  Slots
	Start  Start
	// Registered is called each time that kubelet has taken the plugin.
	Registered func()
	// Offered returns the IDs of the devices of the resource that kubelet offers to pods, of whatever plugin.
	Offered func(ctx context.Context) ([]string, error)
	// Displaced is called when kubelet asks another plugin of the resource instead, and with nil when it has taken this one again.
	Displaced func(rival *Rival)
	Log       *slog.Logger
}

var _ deviceplugin.DevicePluginServer = (*Plugin)(nil)

func (*Plugin) pluginOptions() *deviceplugin.DevicePluginOptions {
	return &deviceplugin.DevicePluginOptions{PreStartRequired: true}
}

// GetDevicePluginOptions asks for PreStartContainer.
func (p *Plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return p.pluginOptions(), nil
}

// ListAndWatch sends kubelet the slots, and sends them again when they change.
func (p *Plugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	for {
		slots, changed := p.Slots()
		devices := make([]*deviceplugin.Device, len(slots))
		for i, slot := range slots {
			devices[i] = &deviceplugin.Device{ID: slot.ID, Health: deviceplugin.Unhealthy}
			if slot.Healthy {
				devices[i].Health = deviceplugin.Healthy
			}
		}
		if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// Allocate returns a CDI device for each container that is not defined yet. It never fails: an error here ends a pod for good, while one of
// PreStartContainer is retried.
func (p *Plugin) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	response := &deviceplugin.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			CdiDevices: []*deviceplugin.CDIDevice{{Name: p.Kind + "=" + rand.Text()}},
		})
	}
	return response, nil
}

// PreStartContainer defines the CDI device of Allocate.
func (p *Plugin) PreStartContainer(ctx context.Context, request *deviceplugin.PreStartContainerRequest) (*deviceplugin.PreStartContainerResponse, error) {
	if err := p.Start(ctx, p.Resource, request.DevicesIds); err != nil {
		return nil, err
	}
	return &deviceplugin.PreStartContainerResponse{}, nil
}

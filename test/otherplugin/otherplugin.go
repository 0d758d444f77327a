// Package otherplugin is a device plugin of nvidia.com/gpu beside gpu-agent, as NVIDIA's is where somebody installs both. It knows nothing of the
// scheduler's choices.
package otherplugin

import (
	"context"
	"fmt"
	"net"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// Socket is its name in kubelet's folder.
const Socket = "other.sock"

// Plugin is the plugin.
type Plugin struct {
	deviceplugin.UnimplementedDevicePluginServer
	// Allocated has a message after kubelet has asked for devices.
	Allocated chan struct{}

	server *grpc.Server
}

// Start serves at a socket in kubelet's folder of device plugins, and registers with kubelet.
func Start(ctx context.Context, folder string) (*Plugin, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(folder, Socket))
	if err != nil {
		return nil, fmt.Errorf("serving another device plugin: %w", err)
	}
	p := &Plugin{Allocated: make(chan struct{}, 1), server: grpc.NewServer()}
	deviceplugin.RegisterDevicePluginServer(p.server, p)
	go func() { _ = p.server.Serve(listener) }() // until Stop
	conn, err := grpc.NewClient("unix://"+filepath.Join(folder, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		defer func() { _ = conn.Close() }()
		_, err = deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
			Version: deviceplugin.Version, Endpoint: Socket, ResourceName: g8s.ResourceGPU,
		})
	}
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("registering another device plugin: %w", err)
	}
	return p, nil
}

// Stop ends it, and removes its socket.
func (p *Plugin) Stop() { p.server.Stop() }

// GetDevicePluginOptions asks for nothing.
func (*Plugin) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

// ListAndWatch offers two devices.
func (*Plugin) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	devices := []*deviceplugin.Device{{ID: "other-0", Health: deviceplugin.Healthy}, {ID: "other-1", Health: deviceplugin.Healthy}}
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

// Allocate gives containers nothing.
func (p *Plugin) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	select {
	case p.Allocated <- struct{}{}:
	default:
	}
	response := &deviceplugin.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{})
	}
	return response, nil
}

package card

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/nodestate"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// other is a device plugin of the same resource, which knows nothing of the scheduler's choices.
type other struct {
	deviceplugin.UnimplementedDevicePluginServer
	allocated chan struct{}
}

func (*other) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

func (*other) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	devices := []*deviceplugin.Device{{ID: "other-0", Health: deviceplugin.Healthy}, {ID: "other-1", Health: deviceplugin.Healthy}}
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (o *other) Allocate(_ context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	select {
	case o.allocated <- struct{}{}:
	default:
	}
	response := &deviceplugin.AllocateResponse{}
	for range request.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{})
	}
	return response, nil
}

// showSecondPlugin records what kubelet does when another plugin of the same resource registers later, and what of it is seen.
func showSecondPlugin(t *testing.T, b *bed) string {
	folder := b.node.HostPath(realnode.KubeletDir + "/device-plugins/")
	const socket = "other.sock"
	listener, err := net.Listen("unix", folder+"/"+socket)
	if err != nil {
		t.Fatal(err)
	}
	server, plugin := grpc.NewServer(), &other{allocated: make(chan struct{}, 1)}
	deviceplugin.RegisterDevicePluginServer(server, plugin)
	go func() { _ = server.Serve(listener) }()
	stop := func() {
		server.Stop()
		_ = os.Remove(folder + "/" + socket)
	}
	t.Cleanup(stop)
	conn, err := grpc.NewClient("unix://"+folder+"/kubelet.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(t.Context(), &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: socket, ResourceName: g8s.ResourceGPU,
	})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(4 * time.Second)
	with := b.offered(t, g8s.ResourceGPU)
	condition := "none"
	if ready := nodestate.ConditionOf(b.current(t), g8s.ConditionAgentReady); ready != nil {
		condition = text("%s (%s)", ready.Status, ready.Reason)
	}
	b.create(t, withCard(pod("second", "see")))
	asked := "the agent"
	select {
	case <-plugin.allocated:
		asked = "the other one"
	case <-time.After(10 * time.Second):
	}
	b.remove(t, "second")
	stop()
	time.Sleep(4 * time.Second)
	gone := b.offered(t, g8s.ResourceGPU)
	return text("recorded: kubelet offers %d with both and %d once the other is gone, asks %s for a pod, and GPUAgentReady is %s", with, gone, asked, condition)
}

package kubelet

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/checkpointmanager"
	devicecheckpoint "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	kubelet "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/plugin/v1beta1"

	"g8s.host/gpu-scheduler/pkg/agent/checkpoint"
)

const resource = "nvidia.com/gpu"

// fakeKubelet is kubelet's device manager. The registration server, its connections to plugins and the checkpoint are kubelet's own code. Which plugin
// is asked, and what is offered, is as in manager.go of that package, whose own type cannot be had in another folder than /var/lib/kubelet:
// PluginConnected, PluginDisconnected and genericDeviceUpdateCallback. TestTwoPlugins of test/node holds it against a real kubelet.
type fakeKubelet struct {
	deviceplugin.UnimplementedRegistrationServer

	folder   string
	listener *net.UnixListener
	grpc     *grpc.Server
	server   kubelet.Server

	mu sync.Mutex
	// asked is the plugin that is asked, nil for none, and plugins are all that are connected, by socket.
	asked   *endpoint
	plugins map[string]*endpoint
	offered sets.Set[string]
	refuse  error
	// empty is how often kubelet offered nothing after it had offered something.
	empty int
	// told are the lists of devices, as "id health …".
	told chan string
}

// endpoint is a connected plugin.
type endpoint struct {
	client  deviceplugin.DevicePluginClient
	options *deviceplugin.DevicePluginOptions
	socket  string
}

func startKubelet(t *testing.T, folder string) *fakeKubelet {
	t.Helper()
	k := &fakeKubelet{folder: folder, plugins: map[string]*endpoint{}, offered: sets.New[string](), told: make(chan string, 100)}
	if err := k.CleanupPluginDirectory(klog.Background(), folder); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(folder, "kubelet.sock")
	var err error
	if k.server, err = kubelet.NewServer(klog.Background(), socket, k, k); err != nil {
		t.Fatal(err)
	}
	// Its own Start would remove the socket at each end, also at that of a kubelet that is killed.
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	k.listener, k.grpc = listener.(*net.UnixListener), grpc.NewServer()
	deviceplugin.RegisterRegistrationServer(k.grpc, k)
	go func() { _ = k.grpc.Serve(listener) }()
	t.Cleanup(func() { k.stop(t) })
	return k
}

// stop ends kubelet. Its connections break, and its socket goes.
func (k *fakeKubelet) stop(t *testing.T) {
	t.Helper()
	k.dropAll(t)
	k.grpc.Stop()
}

// kill ends kubelet without giving it time to remove its socket.
func (k *fakeKubelet) kill(t *testing.T) {
	t.Helper()
	k.listener.SetUnlinkOnClose(false)
	k.stop(t)
}

// dropAll ends the connections to all plugins.
func (k *fakeKubelet) dropAll(t *testing.T) {
	t.Helper()
	if err := k.server.Stop(klog.Background()); err != nil {
		t.Error(err)
	}
}

// CleanupPluginDirectory removes all sockets, of which a plugin may remove its own at the same time: kubelet calls RemoveAll, too.
func (k *fakeKubelet) CleanupPluginDirectory(_ klog.Logger, folder string) error {
	sockets, err := filepath.Glob(filepath.Join(folder, "*.sock"))
	for _, socket := range sockets {
		err = errors.Join(err, os.RemoveAll(socket))
	}
	return err
}

func (k *fakeKubelet) Register(ctx context.Context, request *deviceplugin.RegisterRequest) (*deviceplugin.Empty, error) {
	k.mu.Lock()
	refuse := k.refuse
	k.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	return k.server.(deviceplugin.RegistrationServer).Register(ctx, request)
}

// PluginConnected has the plugin that registered last asked.
func (k *fakeKubelet) PluginConnected(ctx context.Context, _ string, plugin kubelet.DevicePlugin) error {
	options, err := plugin.API().GetDevicePluginOptions(ctx, &deviceplugin.Empty{})
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.plugins[plugin.SocketPath()] != nil {
		return errors.New("device plugin already connected: " + plugin.SocketPath())
	}
	k.asked = &endpoint{client: plugin.API(), options: options, socket: plugin.SocketPath()}
	k.plugins[plugin.SocketPath()] = k.asked
	return nil
}

// PluginDisconnected has any other plugin asked that is left. What is offered stays as it is, until the last plugin has ended.
func (k *fakeKubelet) PluginDisconnected(_ klog.Logger, _, socket string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.plugins[socket] == nil {
		return
	}
	delete(k.plugins, socket)
	for _, left := range k.plugins {
		k.asked = left
		return
	}
	k.asked = nil
	k.offer(sets.New[string]())
}

// PluginListAndWatchReceiver has the devices offered that any plugin listed last.
func (k *fakeKubelet) PluginListAndWatchReceiver(_ klog.Logger, _ string, list *deviceplugin.ListAndWatchResponse) {
	var told []string
	healthy := sets.New[string]()
	for _, device := range list.Devices {
		told = append(told, device.ID+" "+device.Health)
		if device.Health == deviceplugin.Healthy {
			healthy.Insert(device.ID)
		}
	}
	k.mu.Lock()
	k.offer(healthy)
	k.mu.Unlock()
	k.writeCheckpoint(healthy)
	k.told <- strings.Join(told, ", ")
}

func (k *fakeKubelet) offer(devices sets.Set[string]) {
	if k.offered.Len() > 0 && devices.Len() == 0 {
		k.empty++
	}
	k.offered = devices
}

func (k *fakeKubelet) writeCheckpoint(offered sets.Set[string]) {
	if manager, err := checkpointmanager.NewCheckpointManager(k.folder); err == nil { // else kubelet goes on as well
		_ = manager.CreateCheckpoint(checkpoint.FileName, devicecheckpoint.New(nil, map[string][]string{resource: offered.UnsortedList()}))
	}
}

// primary is the plugin that is asked.
func (k *fakeKubelet) primary() *endpoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// awaitEnd waits until kubelet has seen that a plugin has ended, which it does some time after that. Until then it may ask any that it knows.
func (k *fakeKubelet) awaitEnd(t *testing.T, socket string) {
	t.Helper()
	for range 1000 {
		k.mu.Lock()
		known := k.plugins[socket] != nil
		k.mu.Unlock()
		if !known {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("kubelet does not see that the plugin at %s has ended", socket)
}

// devices are those that kubelet's PodResources call allocatable.
func (k *fakeKubelet) devices(context.Context) ([]string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offered.UnsortedList(), nil
}

func (k *fakeKubelet) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-k.told:
		if got != want {
			t.Errorf("kubelet is told %q, want %q", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("kubelet is told nothing, want %q", want)
	}
}

// Package kubelet is the agent's side of kubelet's interfaces: the device plugin that offers slots, and the PodResources for other clients.
package kubelet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Slot is the unit that kubelet counts: a device that stands for no particular GPU.
type Slot struct {
	ID      string
	Healthy bool
}

// Slots are the current slots of one resource. changed is closed when they change.
type Slots func() (slots []Slot, changed <-chan struct{})

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
	Log        *slog.Logger
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

// session is one registration of the plugin with one kubelet.
type session struct {
	*Plugin
	// kubelet is its socket, and socket the plugin's.
	kubelet os.FileInfo
	socket  string
	// dropped is signaled when kubelet no longer watches.
	dropped chan struct{}
}

// ListAndWatch also records that kubelet no longer watches.
func (s *session) ListAndWatch(empty *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	defer func() {
		select {
		case s.dropped <- struct{}{}:
		default:
		}
	}()
	return s.Plugin.ListAndWatch(empty, stream)
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

const (
	// pollInterval is the interval at which the plugin checks for a restart of kubelet that was not signaled.
	pollInterval = 500 * time.Millisecond
	// retryDelay is the delay after a session with kubelet has ended.
	retryDelay = 500 * time.Millisecond
	// droppedDelay is the delay after kubelet took another plugin of the resource. Without it the two plugins would replace each other all the time.
	droppedDelay = 10 * time.Second
	// registerTimeout is how long kubelet may take to answer.
	registerTimeout = 5 * time.Second
)

// errDropped means that kubelet continues without the plugin.
var errDropped = errors.New("kubelet has dropped the plugin: another device plugin of the resource runs on this node; leave one of them")

// Run offers the slots until ctx ends. kubelet empties its folder when it starts: then the plugin serves and registers again. While there is no
// kubelet it waits for one.
//
// It must be fast. A kubelet that restarts admits existing pods once more, about a second after it has created its socket, and rejects for good those
// with a container that does not run yet, or no longer, unless the slots are back by then.
func (p *Plugin) Run(ctx context.Context) error {
	folder := watchFolder(p.Folder, p.Log)
	defer folder.close()
	for ctx.Err() == nil {
		wait := retryDelay
		kubelet := statSocket(p.kubeletSocket())
		if err := p.serveKubelet(ctx, folder, kubelet); err != nil && ctx.Err() == nil {
			p.Log.Warn("Offering slots to kubelet", "resource", p.Resource, "error", err)
			if errors.Is(err, errDropped) {
				wait = droppedDelay
			}
		}
		p.waitForKubelet(ctx, folder, kubelet, wait)
	}
	return nil
}

// waitForKubelet returns after some time, or as soon as there is another kubelet than the one before.
func (p *Plugin) waitForKubelet(ctx context.Context, folder *folder, before os.FileInfo, most time.Duration) {
	end := time.After(most)
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if now := statSocket(p.kubeletSocket()); now != nil && !sameSocket(before, now) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-folder.changed:
		case <-ticker.C:
		}
	}
}

// serveKubelet serves a kubelet, identified by its socket, until it restarts or takes another plugin of the resource. It also returns nil if there is
// another kubelet by now: a starting kubelet removes all other sockets before it creates its own.
func (p *Plugin) serveKubelet(ctx context.Context, folder *folder, kubelet os.FileInfo) error {
	if kubelet == nil || !p.kubeletListens(ctx) {
		return errors.New("no kubelet listens (yet)")
	}
	if !sameSocket(kubelet, statSocket(p.kubeletSocket())) {
		return nil
	}
	socket := filepath.Join(p.Folder, p.socketName())
	if err := os.RemoveAll(socket); err != nil {
		return fmt.Errorf("removing the socket of an agent before: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	session := &session{Plugin: p, kubelet: kubelet, socket: socket, dropped: make(chan struct{}, 1)}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, session)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		// A server that is stopped before it has begun closes its listener some time later, and that removes a file: by then
		// the next session's.
		_ = listener.Close()
	}()
	if !session.isIntact() {
		return nil
	}
	if err := session.registerPlugin(ctx, folder); err != nil {
		return fmt.Errorf("registering with kubelet: %w", err)
	}
	p.Registered()
	p.Log.Info("Registered with kubelet", "resource", p.Resource)
	return session.watchSession(ctx, folder, served)
}

// isIntact reports whether kubelet is the one of the session, and the session's socket exists.
func (s *session) isIntact() bool {
	return sameSocket(s.kubelet, statSocket(s.kubeletSocket())) && statSocket(s.socket) != nil
}

// watchSession returns when the session is over. It returns an error if kubelet still runs.
func (s *session) watchSession(ctx context.Context, folder *folder, served <-chan error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for dropped := false; s.isIntact(); {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return fmt.Errorf("serving kubelet: %w", err)
		case <-s.dropped:
			dropped = true // kubelet may be about to restart: check again later
		case <-folder.changed:
		case <-ticker.C:
			switch {
			case !dropped || !s.isIntact():
			case s.kubeletRuns(ctx):
				return errDropped
			default:
				return nil
			}
		}
	}
	return nil
}

// kubeletRuns reports whether a kubelet listens at its socket. A kubelet that was killed leaves the file.
func (p *Plugin) kubeletRuns(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", p.kubeletSocket())
	if err != nil {
		return false
	}
	_ = conn.Close() // nothing was said
	return true
}

// kubeletListens gives a kubelet that has just created its socket a moment to listen on it.
func (p *Plugin) kubeletListens(ctx context.Context) bool {
	for range 20 {
		if p.kubeletRuns(ctx) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(5 * time.Millisecond):
		}
	}
	return false
}

// statSocket returns the current state of a socket, nil if there is none.
func statSocket(path string) os.FileInfo {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	return info
}

// sameSocket reports whether a socket is still the one it was. A new one can have the old one's inode.
func sameSocket(before, now os.FileInfo) bool {
	return before != nil && now != nil && os.SameFile(before, now) && before.ModTime().Equal(now.ModTime())
}

func (p *Plugin) kubeletSocket() string { return filepath.Join(p.Folder, "kubelet.sock") }

// socketName is the socket's name in kubelet's folder.
func (p *Plugin) socketName() string {
	return "g8s-" + strings.NewReplacer("/", "-", ".", "-").Replace(p.Resource) + ".sock"
}

// registerPlugin registers the plugin with kubelet. kubelet connects to the plugin's socket meanwhile, and waits for a missing one: if the socket was
// removed, as a starting kubelet does, the call is canceled.
func (s *session) registerPlugin(ctx context.Context, folder *folder) error {
	conn, err := grpc.NewClient("unix://"+s.kubeletSocket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	answered := make(chan error, 1)
	go func() {
		_, err := deviceplugin.NewRegistrationClient(conn).Register(ctx, &deviceplugin.RegisterRequest{
			Version: deviceplugin.Version, Endpoint: s.socketName(), ResourceName: s.Resource, Options: s.pluginOptions(),
		})
		answered <- err
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-answered:
			return err
		case <-folder.changed:
		case <-ticker.C:
		}
		if !s.isIntact() {
			cancel()
		}
	}
}

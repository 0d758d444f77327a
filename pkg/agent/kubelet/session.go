package kubelet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// session is one registration of the plugin with one kubelet.
type session struct {
	*Plugin
	// kubelet is its socket, and socket the plugin's.
	kubelet os.FileInfo
	socket  string
	// dropped is signaled when kubelet no longer watches.
	dropped chan struct{}
	// calls is how many of kubelet's calls are not answered yet.
	calls  atomic.Int64
	tenure tenure
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
	p.removeDeadSockets(ctx)
	return p.serveAt(ctx, folder, kubelet, filepath.Join(p.Folder, p.newSocketName()))
}

// serveAt serves kubelet at a socket.
func (p *Plugin) serveAt(ctx context.Context, folder *folder, kubelet os.FileInfo, socket string) error {
	s := &session{Plugin: p, kubelet: kubelet, socket: socket, dropped: make(chan struct{}, 1)}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", s.socket)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, s)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		s.awaitCalls(callsTimeout)
		server.Stop()
		// A server that is stopped before it has begun closes its listener some time later.
		_ = listener.Close()
	}()
	if !s.isIntact() {
		return nil
	}
	if err := s.registerPlugin(ctx, folder); err != nil {
		return fmt.Errorf("registering with kubelet: %w", err)
	}
	p.Registered()
	p.Displaced(nil)
	p.Log.Info("Registered with kubelet", "resource", p.Resource)
	s.tenure.begun = time.Now()
	return s.watchSession(ctx, folder, served)
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

// Allocate also records that kubelet waits.
func (s *session) Allocate(ctx context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return s.Plugin.Allocate(ctx, request)
}

// PreStartContainer also records that kubelet waits.
func (s *session) PreStartContainer(ctx context.Context, request *deviceplugin.PreStartContainerRequest) (*deviceplugin.PreStartContainerResponse, error) {
	s.calls.Add(1)
	defer s.calls.Add(-1)
	return s.Plugin.PreStartContainer(ctx, request)
}

// awaitCalls waits until kubelet's calls are answered. The end of the stream of slots has kubelet cancel them: it would reject the pod of an Allocate
// for good. Calls of a kubelet that is gone are canceled already.
func (s *session) awaitCalls(most time.Duration) {
	for end := time.Now().Add(most); s.calls.Load() > 0 && s.isIntact() && time.Now().Before(end); {
		time.Sleep(callsPoll)
	}
}

// isIntact reports whether kubelet is the one of the session, and the session's socket exists.
func (s *session) isIntact() bool {
	return sameSocket(s.kubelet, statSocket(s.kubeletSocket())) && statSocket(s.socket) != nil
}

// watchSession returns when the session is over. It returns an error if kubelet still runs.
func (s *session) watchSession(ctx context.Context, folder *folder, served <-chan error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var dropped <-chan time.Time
	var asked time.Time
	for changed := false; s.isIntact(); {
		select {
		case <-ctx.Done():
			return nil
		case err := <-served:
			return fmt.Errorf("serving kubelet: %w", err)
		case <-s.dropped:
			dropped = time.After(settleDelay) // kubelet may be about to end
		case <-dropped:
			if s.isIntact() && s.kubeletRuns(ctx) {
				return errDropped
			}
			return nil
		case <-folder.changed:
			changed = true
		case <-ticker.C:
		}
		if isQuestionDue(changed, time.Since(asked)) {
			changed, asked = false, time.Now()
			if err := s.checkTenure(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// isQuestionDue reports whether kubelet is to be asked which plugin it uses: from time to time, and soon after its folder has changed.
func isQuestionDue(changed bool, since time.Duration) bool {
	return since > askInterval || changed && since > askPace
}

// kubeletRuns reports whether a kubelet listens at its socket. A kubelet that was killed leaves the file.
func (p *Plugin) kubeletRuns(ctx context.Context) bool { return listensAt(ctx, p.kubeletSocket()) }

// listensAt reports whether somebody listens at a socket.
func listensAt(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
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

// socketPrefix begins the names of the plugin's sockets in kubelet's folder.
func (p *Plugin) socketPrefix() string {
	return "g8s-" + strings.NewReplacer("/", "-", ".", "-").Replace(p.Resource) + "-"
}

// newSocketName returns a name of its own for each session. kubelet tells plugins of a resource apart by it, and refuses a second one with the same
// name until it has noticed that the first has ended; once it has refused one, it never notices that.
func (p *Plugin) newSocketName() string { return p.socketPrefix() + rand.Text()[:6] + ".sock" }

// removeDeadSockets removes the sockets of plugins that were killed. An agent that this one replaces still listens.
func (p *Plugin) removeDeadSockets(ctx context.Context) {
	found, _ := filepath.Glob(filepath.Join(p.Folder, p.socketPrefix()+"*.sock")) // the pattern is well formed
	for _, socket := range found {
		if !listensAt(ctx, socket) {
			_ = os.Remove(socket) // kubelet's next start removes it as well
		}
	}
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
			Version: deviceplugin.Version, Endpoint: filepath.Base(s.socket), ResourceName: s.Resource, Options: s.pluginOptions(),
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

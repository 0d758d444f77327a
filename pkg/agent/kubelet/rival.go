package kubelet

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// kubelet accepts any number of plugins of one resource. It asks the one that registered last, offers the devices of the one that listed its own
// last, and says nothing to the others, whose streams stay open. So a plugin learns of another one only by asking kubelet what it offers.

// Rival is another device plugin that kubelet asks for the resource.
type Rival struct {
	// Devices are those that kubelet offers of it, sorted.
	Devices []string
	// Sockets are those of other plugins in kubelet's folder, one of which is probably its own, with the process that listens.
	Sockets []string
}

// maxNamed is how many devices of a rival are named: there may be hundreds.
const maxNamed = 2

// String describes the rival for administrators.
func (r *Rival) String() string {
	devices := strings.Join(r.Devices[:min(maxNamed, len(r.Devices))], ", ")
	if more := len(r.Devices) - maxNamed; more > 0 {
		devices += fmt.Sprintf(" and %d more", more)
	}
	if len(r.Sockets) == 0 {
		return "a plugin without a socket in kubelet's folder, which offers " + devices
	}
	return strings.Join(r.Sockets, " or ") + ", which offers " + devices
}

// displacedError means that kubelet asks another plugin now.
type displacedError struct{ rival Rival }

func (e *displacedError) Error() string {
	return "kubelet asks another device plugin of the resource: " + e.rival.String()
}

// tenure is for how long kubelet has asked a session.
type tenure struct {
	begun time.Time
	// taken is true once kubelet has offered the session's slots.
	taken bool
}

// takeTimeout is how long kubelet may offer the devices of the plugin before once it has registered another one: it waits for the list of that.
const takeTimeout = 5 * time.Second

// foreignDevices returns the devices of another plugin that kubelet asks, from all that it offers of the resource; nil if it asks the session.
func (t *tenure) foreignDevices(offered []string, now time.Time) []string {
	foreign := devicesOfOthers(offered)
	switch {
	case len(foreign) == 0:
		t.taken = t.taken || len(offered) > 0
		return nil
	case !t.taken && now.Sub(t.begun) < takeTimeout:
		return nil
	}
	return foreign
}

func devicesOfOthers(offered []string) []string {
	var others []string
	for _, id := range offered {
		if !strings.HasPrefix(id, SlotPrefix) {
			others = append(others, id)
		}
	}
	slices.Sort(others)
	return others
}

// checkTenure returns an error if kubelet asks another plugin. A kubelet that does not answer says nothing.
func (s *session) checkTenure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	offered, err := s.Offered(ctx)
	if err != nil {
		s.Log.Debug("Asking kubelet what it offers", "resource", s.Resource, "error", err)
		return nil
	}
	foreign := s.tenure.foreignDevices(offered, time.Now())
	if len(foreign) == 0 {
		return nil
	}
	return &displacedError{Rival{Devices: foreign, Sockets: s.otherSockets(ctx)}}
}

// yieldToRival reports a rival, and returns when kubelet offers nothing of it any more, or has restarted.
func (p *Plugin) yieldToRival(ctx context.Context, folder *folder, rival *Rival) {
	p.Log.Error("Kubelet asks another device plugin of the resource: leave one of them on this node", "resource", p.Resource, "plugin", rival.String())
	p.Displaced(rival)
	before := statSocket(p.kubeletSocket())
	p.waitForKubelet(ctx, folder, before, rivalDelay)
	for ctx.Err() == nil && sameSocket(before, statSocket(p.kubeletSocket())) {
		asking, cancel := context.WithTimeout(ctx, registerTimeout)
		offered, err := p.Offered(asking)
		cancel()
		if err == nil && len(devicesOfOthers(offered)) == 0 {
			p.Log.Info("The other device plugin is gone", "resource", p.Resource)
			return
		}
		p.waitForKubelet(ctx, folder, before, pollInterval)
	}
}

// otherSockets describes the sockets of others in kubelet's folder at which somebody listens.
func (p *Plugin) otherSockets(ctx context.Context) []string {
	found, _ := filepath.Glob(filepath.Join(p.Folder, "*.sock")) // the pattern is well formed
	var others []string
	for _, socket := range found {
		if name := filepath.Base(socket); socket != p.kubeletSocket() && !strings.HasPrefix(name, "g8s-") {
			if listener, ok := describeListener(ctx, socket); ok {
				others = append(others, name+listener)
			}
		}
	}
	return others
}

// describeListener returns the process that listens at a socket, "" if it cannot be seen. ok is false if none does.
func describeListener(ctx context.Context, socket string) (process string, ok bool) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
	if err != nil {
		return "", false
	}
	defer func() { _ = conn.Close() }() // nothing was said
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return "", true
	}
	var peer *syscall.Ucred
	if failed := raw.Control(func(fd uintptr) {
		peer, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); failed != nil || err != nil {
		return "", true
	}
	name, err := os.ReadFile("/proc/" + strconv.Itoa(int(peer.Pid)) + "/comm")
	if err != nil { // a process of another namespace
		return "", true
	}
	return fmt.Sprintf(" (%s, process %d)", strings.TrimSpace(string(name)), peer.Pid), true
}

package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

func TestForeignDevices(t *testing.T) {
	begun := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		taken   bool
		after   time.Duration
		offered []string
		want    []string
	}{
		"kubelet offers the slots":                                         {taken: true, offered: []string{"slot-0", "slot-1"}},
		"kubelet offers nothing, as all cards are sick":                    {taken: true},
		"kubelet offers another plugin's":                                  {taken: true, offered: []string{"GPU-b", "GPU-a"}, want: []string{"GPU-a", "GPU-b"}},
		"kubelet still offers those of the plugin before":                  {after: time.Second, offered: []string{"GPU-a"}},
		"another plugin registered before kubelet had offered any slot":    {after: takeTimeout, offered: []string{"GPU-a"}, want: []string{"GPU-a"}},
		"kubelet offers those of an agent before, which are slots as well": {offered: []string{"slot-7"}},
	} {
		t.Run(name, func(t *testing.T) {
			tenure := tenure{begun: begun, taken: tc.taken}
			if diff := cmp.Diff(tc.want, tenure.foreignDevices(tc.offered, begun.Add(tc.after))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAnotherPlugin registers another plugin of the resource later, as NVIDIA's does when it is installed on a node with an agent. kubelet asks that one
// and tells nobody. The agent says so, names it, and is back when it is gone.
func TestAnotherPlugin(t *testing.T) {
	folder := t.TempDir()
	slots := &offers{changed: make(chan struct{}), slots: []Slot{{"slot-0", true}, {"slot-1", true}}}
	kubelet := startKubelet(t, folder)
	rivals := make(chan *Rival, 10)
	p := newPlugin(folder, slots)
	p.Offered, p.Displaced = kubelet.devices, func(rival *Rival) { rivals <- rival }
	t.Cleanup(runPlugin(t, p))
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	if rival := <-rivals; rival != nil {
		t.Fatalf("the plugin that kubelet has taken is displaced by %s", rival)
	}

	other := newPlugin(folder, &offers{changed: make(chan struct{}), slots: []Slot{{"GPU-a", true}, {"GPU-b", true}, {"GPU-c", true}}})
	stopOther := runAs(t, other, "nvidia-gpu.sock")
	kubelet.expect(t, "GPU-a Healthy, GPU-b Healthy, GPU-c Healthy")
	select {
	case rival := <-rivals:
		want := fmt.Sprintf("nvidia-gpu.sock (kubelet.test, process %d), which offers GPU-a, GPU-b and 1 more", os.Getpid())
		if got := rival.String(); got != want {
			t.Errorf("displaced by %q, want %q", got, want)
		}
	case <-time.After(2 * time.Second):
		t.Fatal("the plugin does not notice that kubelet asks another one")
	}
	slots.set(Slot{"slot-0", true}) // it must not offer slots now, with which kubelet would ask the other one
	select {
	case told := <-kubelet.told:
		t.Errorf("kubelet is told %q by a plugin that it does not ask", told)
	case <-time.After(rivalDelay + time.Second):
	}

	stopOther()
	kubelet.expect(t, "slot-0 Healthy")
	if rival := <-rivals; rival != nil || !strings.HasPrefix(filepath.Base(kubelet.primary().socket), "g8s-") {
		t.Errorf("kubelet asks %s, and the plugin is displaced by %s", kubelet.primary().socket, rival)
	}
}

// runAs has another plugin serve at a socket, and registers it once.
func runAs(t *testing.T, p *Plugin, socket string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		folder := watchFolder(p.Folder, p.Log)
		defer folder.close()
		if err := p.serveAt(ctx, folder, statSocket(p.kubeletSocket()), filepath.Join(p.Folder, socket)); err != nil {
			t.Error(err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestSuccessor registers the agent that replaces another one while that still serves, and then ends that. kubelet offers slots all the time.
func TestSuccessor(t *testing.T) {
	folder := t.TempDir()
	slots := &offers{changed: make(chan struct{}), slots: []Slot{{"slot-0", true}}}
	kubelet := startKubelet(t, folder)
	stop := runPlugin(t, newPlugin(folder, slots))
	kubelet.expect(t, "slot-0 Healthy")
	for range 5 {
		before := kubelet.primary().socket
		stopNext := runPlugin(t, newPlugin(folder, slots))
		kubelet.expect(t, "slot-0 Healthy")
		stop()
		stop = stopNext
		kubelet.awaitEnd(t, before)
		if after := kubelet.primary(); after == nil || after.socket == before {
			t.Fatalf("kubelet asks %v, want the successor of %s", after, before)
		}
	}
	if offered, _ := kubelet.devices(t.Context()); kubelet.empty > 0 || len(offered) != 1 {
		t.Errorf("kubelet offers %v, and offered nothing %d times", offered, kubelet.empty)
	}
	stop()
}

// TestKubeletDropsThePlugin and goes on, as one before 1.36 does when the agent ends that this one replaces.
func TestKubeletDropsThePlugin(t *testing.T) {
	folder, _ := run(t, nil)
	kubelet := startKubelet(t, folder)
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	kubelet.dropAll(t)
	began := time.Now()
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	if took := time.Since(began); took > time.Second {
		t.Errorf("the plugin registered again after %s, want at once", took)
	}
}

// TestCallsAreAnsweredAtTheEnd: kubelet cancels its calls of a plugin whose stream ends, and rejects the pod for good if it was an Allocate.
func TestCallsAreAnsweredAtTheEnd(t *testing.T) {
	folder := t.TempDir()
	started := make(chan struct{})
	p := newPlugin(folder, &offers{changed: make(chan struct{}), slots: []Slot{{"slot-0", true}}})
	p.Start = func(context.Context, string, []string) error {
		close(started)
		time.Sleep(500 * time.Millisecond)
		return nil
	}
	kubelet := startKubelet(t, folder)
	stop := runPlugin(t, p)
	kubelet.expect(t, "slot-0 Healthy")
	answered := make(chan error, 1)
	go func() {
		_, err := kubelet.primary().client.PreStartContainer(t.Context(), &deviceplugin.PreStartContainerRequest{DevicesIds: []string{"slot-0"}})
		answered <- err
	}()
	<-started
	stop()
	if err := <-answered; err != nil {
		t.Errorf("the call that was under way failed: %v", err)
	}
}

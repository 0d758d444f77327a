package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// offers are slots that a test changes.
type offers struct {
	mu      sync.Mutex
	slots   []Slot
	changed chan struct{}
}

func (o *offers) get() ([]Slot, <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.slots, o.changed
}

func (o *offers) set(slots ...Slot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slots = slots
	close(o.changed)
	o.changed = make(chan struct{})
}

// run starts a plugin in a folder of its own.
func run(t *testing.T, start Start) (folder string, o *offers) {
	t.Helper()
	folder = t.TempDir()
	o = &offers{changed: make(chan struct{}), slots: []Slot{{"slot-0", true}, {"slot-1", true}}}
	p := newPlugin(folder, o)
	p.Start = start
	t.Cleanup(runPlugin(t, p))
	return folder, o
}

// newPlugin returns a plugin whose kubelet offers nothing of others.
func newPlugin(folder string, o *offers) *Plugin {
	return &Plugin{
		Resource: resource, Kind: "g8s.host/gpu", Folder: folder, Slots: o.get, Registered: func() {}, Log: slog.New(slog.DiscardHandler),
		Offered: func(context.Context) ([]string, error) { return nil, nil }, Displaced: func(*Rival) {},
	}
}

// runPlugin runs a plugin until stop is called.
func runPlugin(t *testing.T, p *Plugin) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	return func() {
		cancel()
		<-done
	}
}

func TestSlotsOfAPlugin(t *testing.T) {
	folder, offers := run(t, nil)
	time.Sleep(100 * time.Millisecond) // the agent is there first
	kubelet := startKubelet(t, folder)
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	offers.set(Slot{"slot-0", true}, Slot{"slot-1", false})
	kubelet.expect(t, "slot-0 Healthy, slot-1 Unhealthy")
	offers.set()
	kubelet.expect(t, "")
}

// TestKubeletRestarts: three times, since a new socket can have the inode of the old one.
func TestKubeletRestarts(t *testing.T) {
	folder, _ := run(t, nil)
	for range 3 {
		kubelet := startKubelet(t, folder)
		kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
		kubelet.stop(t)
	}
}

// TestKubeletsFolderIsMadeAnew, three times, as somebody does who wipes what kubelet remembers, or moves it aside. The agent looks at the
// path, and hears of the new folder as soon as of the old one.
func TestKubeletsFolderIsMadeAnew(t *testing.T) {
	folder, _ := run(t, nil)
	kubelet := startKubelet(t, folder)
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	ways := []func() error{
		func() error { return os.RemoveAll(folder) },
		func() error { return os.Rename(folder, folder+".old") },
		func() error { return os.RemoveAll(folder) },
	}
	var took []time.Duration
	for _, remove := range ways {
		kubelet.kill(t)
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // the agent looks meanwhile
		if err := os.Mkdir(folder, 0o750); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		kubelet = startKubelet(t, folder)
		kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
		took = append(took, time.Since(begin))
	}
	t.Logf("kubelet was told after %s", took)
	if slices.Sort(took); took[1] > 200*time.Millisecond {
		t.Errorf("kubelet was told after %s (median), want 200 ms", took[1])
	}
}

// TestKubeletIsToldAtOnce: a kubelet that restarts looks at the pods it finds about a second after it made its socket, and
// refuses for good those that need a device it has not been told of.
func TestKubeletIsToldAtOnce(t *testing.T) {
	folder, _ := run(t, nil)
	var took []time.Duration
	for i := range 9 {
		begin := time.Now()
		kubelet := startKubelet(t, folder)
		kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
		took = append(took, time.Since(begin))
		if i%2 == 0 {
			kubelet.kill(t)
		} else {
			kubelet.stop(t)
		}
		time.Sleep(time.Duration(i) * 70 * time.Millisecond) // kubelet is away for a moment or for longer
	}
	slices.Sort(took)
	if median, most := took[len(took)/2], took[len(took)-1]; median > 200*time.Millisecond || most > 2*time.Second {
		t.Errorf("kubelet was told after %s (median) and %s (longest), want 200 ms and 2 s; all: %s", median, most, took)
	}
}

// TestKubeletComesBackWhileItIsLookedFor, at any moment of the looks. A plugin that registers with a socket which kubelet has
// just removed is waited for by kubelet, and meanwhile counts as away; so does one that removes its own.
func TestKubeletComesBackWhileItIsLookedFor(t *testing.T) {
	const moments = 24
	took := make(chan time.Duration, moments)
	t.Run("moments", func(t *testing.T) {
		for i := range moments {
			away := 500*time.Millisecond + time.Duration(i)*30*time.Millisecond
			t.Run(away.String(), func(t *testing.T) {
				t.Parallel()
				folder, _ := run(t, nil)
				kubelet := startKubelet(t, folder)
				kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
				kubelet.kill(t)
				time.Sleep(away)
				begin := time.Now()
				startKubelet(t, folder).expect(t, "slot-0 Healthy, slot-1 Healthy")
				took <- time.Since(begin)
			})
		}
	})
	close(took)
	late := 0
	for each := range took {
		if each > 2*time.Second {
			t.Errorf("kubelet was told after %s, want 2 s at the most", each)
		}
		if each > 300*time.Millisecond {
			late++
		}
	}
	if late > moments/12 {
		t.Errorf("kubelet was told after more than 300 ms at %d of %d moments", late, moments)
	}
}

// TestKubeletIsKilled, and comes back later: that is no other plugin to stand off from.
func TestKubeletIsKilled(t *testing.T) {
	folder, _ := run(t, nil)
	kubelet := startKubelet(t, folder)
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	kubelet.kill(t)
	time.Sleep(2 * time.Second)
	begin := time.Now()
	startKubelet(t, folder).expect(t, "slot-0 Healthy, slot-1 Healthy")
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("kubelet was told after %s, want within two looks", took)
	}
}

func TestKubeletRefuses(t *testing.T) {
	folder, _ := run(t, nil)
	kubelet := startKubelet(t, folder)
	kubelet.mu.Lock()
	kubelet.refuse = errors.New("not now")
	kubelet.mu.Unlock()
	time.Sleep(time.Second)
	kubelet.mu.Lock()
	kubelet.refuse = nil
	kubelet.mu.Unlock()
	kubelet.dropAll(t) // it may have been taken before the refusal was set
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
}

func TestStartOfAContainer(t *testing.T) {
	var asked string
	folder, _ := run(t, func(_ context.Context, resource string, slots []string) error {
		asked = fmt.Sprint(resource, slots)
		if len(slots) == 1 {
			return errors.New("no card for you")
		}
		return nil
	})
	kubelet := startKubelet(t, folder)
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	if !kubelet.primary().options.PreStartRequired {
		t.Error("kubelet is not asked to call PreStartContainer")
	}
	// Each container of each call is promised a device of its own, which nobody has had before.
	promised := map[string]bool{}
	for range 2 {
		answer, err := kubelet.primary().client.Allocate(t.Context(), &deviceplugin.AllocateRequest{ContainerRequests: []*deviceplugin.ContainerAllocateRequest{
			{DevicesIds: []string{"slot-0"}}, {DevicesIds: []string{"slot-1"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		for _, container := range answer.ContainerResponses {
			if len(container.CdiDevices) != 1 || !strings.HasPrefix(container.CdiDevices[0].Name, "g8s.host/gpu=") || len(container.Envs)+len(container.Devices) > 0 {
				t.Errorf("container is answered %v", container)
			}
			promised[container.CdiDevices[0].Name] = true
		}
	}
	if len(promised) != 4 {
		t.Errorf("4 containers were promised %d devices", len(promised))
	}
	if _, err := kubelet.primary().client.PreStartContainer(t.Context(), &deviceplugin.PreStartContainerRequest{DevicesIds: []string{"slot-0", "slot-1"}}); err != nil {
		t.Error(err)
	}
	if asked != "nvidia.com/gpu[slot-0 slot-1]" {
		t.Errorf("asked for %s", asked)
	}
	if _, err := kubelet.primary().client.PreStartContainer(t.Context(), &deviceplugin.PreStartContainerRequest{DevicesIds: []string{"slot-0"}}); err == nil || !strings.Contains(err.Error(), "no card for you") {
		t.Errorf("error %v, want the refusal", err)
	}
}

package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// fakeKubelet is the registration side of kubelet's device manager: it empties its folder when it starts, connects to who
// registers, and lets go of who registered the resource before.
type fakeKubelet struct {
	deviceplugin.UnimplementedRegistrationServer

	folder   string
	listener *net.UnixListener
	server   *grpc.Server

	mu      sync.Mutex
	drop    func()
	client  deviceplugin.DevicePluginClient
	options *deviceplugin.DevicePluginOptions
	refuse  error
	// told are the lists of devices, as "id health …".
	told chan string
}

func startKubelet(t *testing.T, folder string) *fakeKubelet {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	k := &fakeKubelet{folder: folder, listener: listener.(*net.UnixListener), server: grpc.NewServer(), told: make(chan string, 100)}
	deviceplugin.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(listener) }()
	t.Cleanup(k.stop)
	return k
}

// stop ends kubelet. Its connections break, and its socket goes.
func (k *fakeKubelet) stop() {
	k.server.Stop()
	k.letGo()
}

// kill ends kubelet without giving it time to remove its socket.
func (k *fakeKubelet) kill() {
	k.listener.SetUnlinkOnClose(false)
	k.stop()
}

// letGo is what kubelet does to a plugin when another registers its resource.
func (k *fakeKubelet) letGo() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.drop != nil {
		k.drop()
		k.drop = nil
	}
}

func (k *fakeKubelet) Register(asked context.Context, request *deviceplugin.RegisterRequest) (*deviceplugin.Empty, error) {
	// It waits for the plugin's socket, which may be one that it has just removed.
	for _, err := os.Stat(filepath.Join(k.folder, request.Endpoint)); err != nil; _, err = os.Stat(filepath.Join(k.folder, request.Endpoint)) {
		select {
		case <-asked.Done():
			return nil, asked.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	k.letGo()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.refuse != nil {
		return nil, k.refuse
	}
	conn, err := grpc.NewClient("unix://"+filepath.Join(k.folder, request.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.drop = func() { cancel(); _ = conn.Close() }
	k.client, k.options = deviceplugin.NewDevicePluginClient(conn), request.Options
	stream, err := k.client.ListAndWatch(ctx, &deviceplugin.Empty{})
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			list, err := stream.Recv()
			if err != nil {
				return
			}
			var devices []string
			for _, device := range list.Devices {
				devices = append(devices, device.ID+" "+device.Health)
			}
			k.told <- strings.Join(devices, ", ")
		}
	}()
	return &deviceplugin.Empty{}, nil
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
	p := &Plugin{Resource: "nvidia.com/gpu", Kind: "g8s.host/gpu", Folder: folder, Slots: o.get, Start: start, Registered: func() {}, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return folder, o
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
		kubelet.stop()
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
		kubelet.kill()
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
			kubelet.kill()
		} else {
			kubelet.stop()
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
				kubelet.kill()
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
	kubelet.kill()
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
	kubelet.letGo() // it may have been taken before the refusal was set
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
	if !kubelet.options.PreStartRequired {
		t.Error("kubelet is not asked to call PreStartContainer")
	}
	// Each container of each call is promised a device of its own, which nobody has had before.
	promised := map[string]bool{}
	for range 2 {
		answer, err := kubelet.client.Allocate(t.Context(), &deviceplugin.AllocateRequest{ContainerRequests: []*deviceplugin.ContainerAllocateRequest{
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
	if _, err := kubelet.client.PreStartContainer(t.Context(), &deviceplugin.PreStartContainerRequest{DevicesIds: []string{"slot-0", "slot-1"}}); err != nil {
		t.Error(err)
	}
	if asked != "nvidia.com/gpu[slot-0 slot-1]" {
		t.Errorf("asked for %s", asked)
	}
	if _, err := kubelet.client.PreStartContainer(t.Context(), &deviceplugin.PreStartContainerRequest{DevicesIds: []string{"slot-0"}}); err == nil || !strings.Contains(err.Error(), "no card for you") {
		t.Errorf("error %v, want the refusal", err)
	}
}

// TestAnotherPlugin: kubelet takes who registered last. The agent says so, and does not fight.
func TestAnotherPlugin(t *testing.T) {
	folder, _ := run(t, nil)
	kubelet := startKubelet(t, folder)
	kubelet.expect(t, "slot-0 Healthy, slot-1 Healthy")
	kubelet.letGo()
	select {
	case told := <-kubelet.told:
		t.Errorf("the agent registered again at once, and told %q", told)
	case <-time.After(3 * time.Second):
	}
}

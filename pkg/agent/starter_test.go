package agent

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	kubelet "k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// bed is a node in memory: kubelet's checkpoint, the runtime, the API server and the cards, each of which can fail.
type bed struct {
	*Starter

	mu      sync.Mutex
	pods    map[types.UID]binding.Pod
	changed chan struct{}
	live    map[types.UID]map[string]bool
	silent  error
	entries []kubelet.PodDevicesEntry
	refused []binding.Reason
	// asked is the resource that kubelet asks for.
	asked string
}

func newBed(t *testing.T, config string) *bed {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "cards.yaml")
	write(t, path, config)
	library, err := fake.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	options := &Options{CDIDir: dir, Library: library, Log: slog.New(slog.DiscardHandler)}
	b := &bed{pods: map[types.UID]binding.Pod{}, changed: make(chan struct{}), live: map[types.UID]map[string]bool{}, asked: names.ResourceGPU}
	cards := newGPUMonitor(options, NewMetrics())
	fleet, err := library.Read()
	if err != nil {
		t.Fatal(err)
	}
	cards.updateFleet(fleet, time.Now())
	fitness := newFitness(Serve, options.Log)
	fitness.updateState(func() { fitness.known = true })
	b.Starter = &Starter{
		DevicePlugins: dir, Folder: cdi.Folder{Path: dir}, Runtime: b, Pods: b, GPUs: cards, Fitness: fitness, Unassigned: binding.Refuse,
		Log: options.Log, Observe: func(_ time.Duration, refusal *binding.Refusal) {
			if refusal != nil {
				b.refused = append(b.refused, refusal.Reason)
			}
		},
	}
	return b
}

func (b *bed) LivePods(context.Context) (map[types.UID]map[string]bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.live), b.silent
}

func (b *bed) KnownPods() (map[types.UID]binding.Pod, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.pods), b.changed
}

// bind is what scheduler, kubelet and runtime do before the container starts: the pod gets cards, slots and a sandbox.
func (b *bed) bind(t *testing.T, uid types.UID, slot string, card int) {
	t.Helper()
	answer, err := proto.Marshal(&deviceplugin.ContainerAllocateResponse{CdiDevices: []*deviceplugin.CDIDevice{{Name: cdi.Kind + "=" + nameOf(uid)}}})
	if err != nil {
		t.Fatal(err)
	}
	b.entries = append(b.entries, kubelet.PodDevicesEntry{PodUID: string(uid), ContainerName: "main", ResourceName: names.ResourceGPU,
		DeviceIDs: kubelet.DevicesPerNUMA{-1: {slot}}, AllocResp: answer})
	b.checkpoint(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live[uid] = map[string]bool{}
	b.tell(uid, `{"version":1,"containers":{"main":[{"uuid":"`+fake.UUID(card)+`","index":0}]}}`)
}

func (b *bed) checkpoint(t *testing.T) {
	t.Helper()
	data, err := kubelet.New(b.entries, nil).MarshalCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(b.DevicePlugins, "kubelet_internal_checkpoint"), string(data))
}

// tell is the API server telling of a pod. The caller holds the lock.
func (b *bed) tell(uid types.UID, assignment string) {
	b.pods[uid] = binding.Pod{Namespace: "team", Name: string(uid), Assignment: assignment}
	close(b.changed)
	b.changed = make(chan struct{})
}

func nameOf(uid types.UID) string { return "CDI" + string(uid) }

func (b *bed) files(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.Folder.Path, "g8s.host-gpu-*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStartWritesWhatTheContainerGets(t *testing.T) {
	b := newBed(t, "count: 4")
	b.bind(t, "one", "slot-3", 2)
	for range 2 { // the second time nothing changes
		if err := b.Start(t.Context(), names.ResourceGPU, []string{"slot-3"}); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(b.Folder.Path, "g8s.host-gpu-CDIone.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"cdiVersion": "0.6.0"`, `"kind": "g8s.host/gpu"`, `"name": "CDIone"`, `"G8S_GPU_UUIDS=` + fake.UUID(2) + `"`,
		`"NVIDIA_VISIBLE_DEVICES=void"`, `"path": "/dev/nvidia2"`,
	} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the spec has no %s:\n%s", want, data)
		}
	}
	if diff := cmp.Diff([]string{"g8s.host-gpu-CDIone.json"}, b.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestStartWaits for what passes: the API server tells late, or the process of a pod that was deleted by force ends late.
func TestStartWaits(t *testing.T) {
	for name, tc := range map[string]struct{ before, then func(b *bed) }{
		"for the API server": {
			before: func(b *bed) { delete(b.pods, "one") },
			then: func(b *bed) {
				b.tell("one", `{"version":1,"containers":{"main":[{"uuid":"`+fake.UUID(0)+`","index":0}]}}`)
			},
		},
		"for the runtime": {
			before: func(b *bed) { b.silent = errors.New("connection refused") },
			then:   func(b *bed) { b.silent = nil },
		},
		"for the end of another pod": {
			before: func(b *bed) {
				b.live["old"] = map[string]bool{"main": true}
				_ = b.Folder.Write(&binding.Record{Name: "OLD", Pod: "old", Container: "main", Resource: names.ResourceGPU,
					Devices: devicesOf(fake.UUID(0))}, &noEdits)
			},
			then: func(b *bed) { delete(b.live, "old") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "count: 2")
			b.bind(t, "one", "slot-0", 0)
			tc.before(b)
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				go func() {
					time.Sleep(3 * time.Second)
					b.mu.Lock()
					defer b.mu.Unlock()
					tc.then(b)
				}()
				// The channel of the bed is made outside of the test's time: without a change the start looks again.
				b.mu.Lock()
				b.changed = make(chan struct{})
				b.mu.Unlock()
				if err := b.Start(t.Context(), names.ResourceGPU, []string{"slot-0"}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(begin); took < 3*time.Second || took > 4*time.Second {
					t.Errorf("it took %s, want a little over 3 s", took)
				}
			})
		})
	}
}

// TestStartGivesUp before kubelet does, so that kubelet has the text.
func TestStartGivesUp(t *testing.T) {
	b := newBed(t, "count: 2")
	b.bind(t, "one", "slot-0", 0)
	delete(b.pods, "one")
	synctest.Test(t, func(t *testing.T) {
		b.changed = make(chan struct{})
		begin := time.Now()
		err := b.Start(t.Context(), names.ResourceGPU, []string{"slot-0"})
		if err == nil || !strings.Contains(err.Error(), "the API server has not told of the pod one") {
			t.Errorf("error %v, want the refusal", err)
		}
		if took := time.Since(begin); took >= deviceplugin.KubeletPreStartContainerRPCTimeoutInSecs*time.Second {
			t.Errorf("it gave up after %s, and kubelet does before", took)
		}
	})
	if diff := cmp.Diff([]binding.Reason{binding.UnknownPod}, b.refused); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// TestStartOfADeletedPod: kubelet does not take its question back when the pod that waits is deleted, and ends the pod only
// when it has an answer.
func TestStartOfADeletedPod(t *testing.T) {
	for name, del := range map[string]func(b *bed){
		"in order": func(b *bed) { b.pods["one"] = binding.Pod{Namespace: "team", Name: "one", Deleting: true} },
		"by force": func(b *bed) { delete(b.pods, "one") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "count: 2")
			b.bind(t, "one", "slot-0", 0)
			b.live["old"] = map[string]bool{"main": true}
			if err := b.Folder.Write(&binding.Record{Name: "OLD", Pod: "old", Container: "main", Resource: names.ResourceGPU,
				Devices: devicesOf(fake.UUID(0))}, &noEdits); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				b.mu.Lock()
				b.changed = make(chan struct{})
				b.mu.Unlock()
				begin := time.Now()
				go func() {
					time.Sleep(2 * time.Second)
					b.mu.Lock()
					defer b.mu.Unlock()
					del(b)
				}()
				if err := b.Start(t.Context(), names.ResourceGPU, []string{"slot-0"}); err == nil {
					t.Error("a container of a deleted pod may start")
				}
				if took := time.Since(begin); took < 2*time.Second || took > 3*time.Second {
					t.Errorf("it took %s, want a little over 2 s", took)
				}
			})
		})
	}
}

// TestStartRefusesAtOnce what nobody but a person changes, and leaves no file.
func TestStartRefusesAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil  func(t *testing.T, b *bed)
		reason binding.Reason
	}{
		"a pod of another scheduler": {func(_ *testing.T, b *bed) { b.pods["one"] = binding.Pod{Namespace: "team", Name: "one"} }, binding.Unassigned},
		"a card that is sick": {func(_ *testing.T, b *bed) {
			fleet, _ := b.GPUs.library.Read()
			fleet.GPUs = slices.Clone(fleet.GPUs)
			fleet.GPUs[0].Signs.Lost = true
			b.GPUs.updateFleet(fleet, time.Now())
		}, binding.SickGPU},
		"a share on a node that shares no more": {func(t *testing.T, b *bed) {
			b.entries[0].ResourceName = names.ResourceSharedGPU
			b.checkpoint(t)
			b.tell("one", `{"version":1,"containers":{"main":[{"uuid":"`+fake.UUID(0)+`","index":0,"memoryMiB":100}]}}`)
			b.asked = names.ResourceSharedGPU
		}, binding.BadAssignment},
		"a node that cannot": {func(_ *testing.T, b *bed) { b.Fitness.setKubeletReason("kubelet is too old") }, binding.Unfit},
		"a folder that cannot be written": {func(t *testing.T, b *bed) {
			// A folder in the place of the file that is written first, as root may write everywhere.
			if err := os.MkdirAll(filepath.Join(b.Folder.Path, "g8s.host-gpu-CDIone.json.new"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, binding.Unwritable},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, "count: 2")
			b.bind(t, "one", "slot-0", 0)
			tc.spoil(t, b)
			if err := b.Start(t.Context(), b.asked, []string{"slot-0"}); err == nil {
				t.Fatal("the container may start")
			}
			if diff := cmp.Diff([]binding.Reason{tc.reason}, b.refused); diff != "" {
				t.Errorf("refusals (-want +got):\n%s", diff)
			}
			if _, err := os.Stat(filepath.Join(b.Folder.Path, "g8s.host-gpu-CDIone.json")); err == nil {
				t.Error("there is a spec")
			}
		})
	}
}

// TestTwoStartsOfOneCard: whatever the order, one of two pods that are to have the same card gets it.
func TestTwoStartsOfOneCard(t *testing.T) {
	b := newBed(t, "count: 2")
	b.bind(t, "one", "slot-0", 1)
	b.bind(t, "two", "slot-1", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	results := make(chan error, 2)
	for _, slot := range []string{"slot-0", "slot-1"} {
		go func() { results <- b.Start(ctx, names.ResourceGPU, []string{slot}) }()
	}
	if first, second := <-results, <-results; (first == nil) == (second == nil) {
		t.Errorf("results %v and %v, want one of them refused", first, second)
	}
}

func TestSweep(t *testing.T) {
	b := newBed(t, "count: 2")
	b.bind(t, "one", "slot-0", 0)
	b.bind(t, "two", "slot-1", 1)
	for _, slot := range []string{"slot-0", "slot-1"} {
		if err := b.Start(t.Context(), names.ResourceGPU, []string{slot}); err != nil {
			t.Fatal(err)
		}
	}
	b.silent = errors.New("no answer")
	if err := b.SweepEnded(t.Context()); err == nil {
		t.Error("a runtime that does not answer is no reason to believe that pods have ended")
	}
	b.silent = nil
	delete(b.live, "one")
	if err := b.SweepEnded(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"g8s.host-gpu-CDItwo.json"}, b.files(t)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

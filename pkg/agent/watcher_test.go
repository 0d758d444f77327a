package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/cdi"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// TestWatcher follows a pod with 1000 MiB of a card: it keeps to that, and then it does not.
func TestWatcher(t *testing.T) {
	for _, policy := range []OverrunPolicy{Warn, End} {
		t.Run(string(policy), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "cards.yaml")
			use := func(mib string) {
				write(t, path+".new", "cards: [{index: 0, processes: [{pid: 7, usedMiB: "+mib+"}, {pid: 8, usedMiB: 10}, {pid: 9, usedMiB: 99999}]}]\n")
				if err := os.Rename(path+".new", path); err != nil {
					t.Fatal(err)
				}
			}
			use("900")
			library, err := fake.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			folder := cdi.Folder{Path: dir}
			share := &binding.Record{Name: "N1", Pod: "one", Namespace: "team", PodName: "one", Container: "main", Resource: names.ResourceSharedGPU,
				Devices: []gpu.Device{{UUID: fake.UUID(0), MemoryMiB: 1000}}}
			if err := folder.Write(share, &noEdits); err != nil {
				t.Fatal(err)
			}
			events := record.NewFakeRecorder(10)
			w := newUsageWatcher(&Options{Library: library, Overruns: policy, Log: slog.New(slog.DiscardHandler)}, folder, events, NewMetrics())
			w.podOf = func(pid int) (types.UID, error) {
				switch pid {
				case 7, 8:
					return "one", nil
				}
				return "", errors.New("it has ended")
			}
			var killed []int
			w.kill = func(pid int) error { killed = append(killed, pid); return nil }
			look := func() (told []string) {
				t.Helper()
				if err := w.checkOnce(); err != nil {
					t.Fatal(err)
				}
				for len(events.Events) > 0 {
					told = append(told, <-events.Events)
				}
				return told
			}
			if told := look(); told != nil {
				t.Errorf("a pod that keeps to its share is told %v", told)
			}
			use("9000")
			if told := look(); len(told) != 1 || !strings.Contains(told[0], "GPUShareExceeded") || !strings.Contains(told[0], "9010 MiB") {
				t.Errorf("told %v, want one event", told)
			}
			told, wantKilled := look(), []int(nil)
			if policy == End {
				wantKilled = []int{7}
				if len(told) != 1 || !strings.Contains(told[0], "GPUShareEnforced") {
					t.Errorf("told %v, want that a process was ended", told)
				}
			} else if told != nil {
				t.Errorf("told %v again", told)
			}
			if diff := cmp.Diff(wantKilled, killed); diff != "" {
				t.Errorf("killed (-want +got):\n%s", diff)
			}
		})
	}
}

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"g8s.host/gpu-scheduler/pkg/agent/audit"
	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	"g8s.host/gpu-scheduler/pkg/agent/shares"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// listing is what kubelet says, or that it does not answer.
type listing struct {
	listed []audit.Listed
	err    error
}

func (l *listing) List(_ context.Context, pods []types.NamespacedName, _ []string) ([]audit.Listed, error) {
	if len(pods) != 1 || pods[0].Name != "one" {
		return nil, fmt.Errorf("asked for %v, want the pod that has slots", pods)
	}
	return l.listed, l.err
}

// TestAuditor follows a container whose record somebody removes while it runs.
func TestAuditor(t *testing.T) {
	b := newBed(t, "count: 4")
	b.bind(t, "one", "slot-3", 2)
	if err := b.Start(t.Context(), names.ResourceGPU, []string{"slot-3"}); err != nil {
		t.Fatal(err)
	}
	b.live["one"]["main"] = true
	b.tell("without", "")
	events, metrics := record.NewFakeRecorder(10), NewMetrics()
	kubelet := &listing{listed: []audit.Listed{{Namespace: "team", Pod: "one", Container: "main", Resource: names.ResourceGPU, Slots: []string{"slot-3"}}}}
	a := &auditor{starter: b.Starter, kubelet: kubelet, events: events, metrics: metrics, log: b.Log}
	look := func(wantEvents int, wantCount float64) {
		t.Helper()
		if err := a.auditOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(events.Events) != wantEvents {
			t.Errorf("%d events, want %d", len(events.Events), wantEvents)
		}
		for len(events.Events) > 0 {
			if text := <-events.Events; !strings.Contains(text, "GPURecordDiffers") || !strings.Contains(text, "no record says which") {
				t.Errorf("the event is %q", text)
			}
		}
		if got := testutil.ToFloat64(metrics.differences.WithLabelValues(string(audit.Unrecorded))); got != wantCount {
			t.Errorf("the metric is %v, want %v", got, wantCount)
		}
	}
	look(0, 0)
	look(0, 0)
	if err := b.Folder.Remove(nameOf("one")); err != nil {
		t.Fatal(err)
	}
	look(0, 0) // it may be about to end
	look(1, 1)
	look(0, 1) // told once
	kubelet.err = errors.New("kubelet restarts")
	if err := a.auditOnce(t.Context()); err == nil {
		t.Error("no error though kubelet did not answer")
	}
	kubelet.err = nil
	look(0, 1) // and what was known is known
	b.live["one"]["main"] = false
	look(0, 0)
	look(0, 0)
}

// TestAuditorOfAKubeletThatForgot: its checkpoint is gone, and a container runs that it started without cards.
func TestAuditorOfAKubeletThatForgot(t *testing.T) {
	b := newBed(t, "count: 4")
	b.bind(t, "one", "slot-3", 2)
	b.live["one"]["main"] = true
	if err := os.Remove(filepath.Join(b.DevicePlugins, "kubelet_internal_checkpoint")); err != nil {
		t.Fatal(err)
	}
	events, metrics := record.NewFakeRecorder(10), NewMetrics()
	a := &auditor{starter: b.Starter, kubelet: &listing{}, events: events, metrics: metrics, log: b.Log}
	for range 2 {
		if err := a.auditOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := testutil.ToFloat64(metrics.differences.WithLabelValues(string(audit.Forgotten))); got != 1 || len(events.Events) != 1 {
		t.Errorf("the metric is %v, and %d events were written; want one each", got, len(events.Events))
	}
}

func TestMetricsOfPods(t *testing.T) {
	m := NewMetrics()
	records := []binding.Record{
		{Pod: "one", Namespace: "team", PodName: "one", Container: "main", Resource: names.ResourceGPU,
			Devices: []gpu.Device{{UUID: fake.UUID(0)}, {UUID: fake.UUID(1)}}},
		{Pod: "two", Namespace: "team", PodName: "two", Container: "main", Resource: names.ResourceSharedGPU, Devices: []gpu.Device{{UUID: fake.UUID(2), MemoryMiB: 9}}},
	}
	uses := []shares.Use{
		{GPUUUID: fake.UUID(0), Pod: "one", UsedMiB: 3}, {GPUUUID: fake.UUID(0), Pod: "one", UsedMiB: 4}, {GPUUUID: fake.UUID(2), Pod: "two", UsedMiB: 1},
		{GPUUUID: fake.UUID(0), Pod: "stranger", UsedMiB: 100},
	}
	m.setHeldDevices(records)
	m.setPodUse(records, uses)
	got := map[string]float64{}
	for i, uuid := range []string{fake.UUID(0), fake.UUID(1), fake.UUID(2)} {
		pod := []string{"one", "one", "two"}[i]
		got[pod+uuid] = testutil.ToFloat64(m.podMemory.WithLabelValues("team", pod, uuid))
	}
	if diff := cmp.Diff(map[string]float64{"one" + fake.UUID(0): 7 << 20, "one" + fake.UUID(1): 0, "two" + fake.UUID(2): 1 << 20}, got); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
	if count := testutil.CollectAndCount(m.podDevices); count != 3 {
		t.Errorf("%d devices of pods, want 3", count)
	}
	// Who has ended is told of no more.
	m.setHeldDevices(records[1:])
	m.setPodUse(records[1:], nil)
	if devices, memory := testutil.CollectAndCount(m.podDevices), testutil.CollectAndCount(m.podMemory); devices != 1 || memory != 1 {
		t.Errorf("%d devices and %d amounts after a pod has ended, want one each", devices, memory)
	}
}

package agent

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// slowAtLast is a runtime that answers, and then lets who asks wait until they give up.
type slowAtLast struct {
	*bed
	from time.Time
}

func (s slowAtLast) LivePods(ctx context.Context) (map[types.UID]map[string]bool, error) {
	if time.Since(s.from) > startTimeout-time.Second {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.bed.LivePods(ctx)
}

// TestStartSaysWhatItWaitedFor, and not that its last look was cut short.
func TestStartSaysWhatItWaitedFor(t *testing.T) {
	b := newBed(t, "count: 2")
	b.bind(t, "one", "slot-0", 0)
	b.live["old"] = map[string]bool{"main": true}
	old := &binding.Record{Name: "OLD", Pod: "old", PodName: "old", Container: "main", Resource: names.ResourceGPU, Devices: devicesOf(fake.UUID(0))}
	if err := b.Folder.Write(old, &noEdits); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b.changed = make(chan struct{})
		b.Runtime = slowAtLast{bed: b, from: time.Now()}
		err := b.Start(t.Context(), names.ResourceGPU, []string{"slot-0"})
		if err == nil || !strings.Contains(err.Error(), "is still with pod") {
			t.Errorf("error %v, want that another pod holds the card", err)
		}
	})
	if diff := cmp.Diff([]binding.Reason{binding.HeldGPU}, b.refused); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

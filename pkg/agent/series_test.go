package agent

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestWhoAsksMeanwhile for what pods hold hears of those that hold it all the time.
func TestWhoAsksMeanwhile(t *testing.T) {
	m := NewMetrics()
	records := []binding.Record{{Pod: "one", Namespace: "team", PodName: "one", Container: "main", Resource: names.ResourceGPU, Devices: devicesOf(fake.UUID(0))}}
	m.setHeldDevices(records)
	m.setPodUse(records, nil)
	over, missed := make(chan struct{}), make(chan int)
	go func() {
		count := 0
		for {
			select {
			case <-over:
				missed <- count
				return
			default:
			}
			if testutil.CollectAndCount(m.podDevices) != 1 || testutil.CollectAndCount(m.podMemory) != 1 || testutil.CollectAndCount(m.held) != 1 {
				count++
			}
		}
	}()
	for range 20_000 {
		m.setHeldDevices(records)
		m.setPodUse(records, nil)
	}
	close(over)
	if count := <-missed; count > 0 {
		t.Errorf("%d times one of them was not told of", count)
	}
}

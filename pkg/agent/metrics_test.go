package agent

import (
	"fmt"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/agent/hardware/fake"
	"g8s.host/gpu-scheduler/pkg/agent/shares"
	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// mostOfANode is for how many series of one node Prometheus has room: there are as many nodes as there are.
const mostOfANode = 100

// TestTheSeriesOfANodeAreFew where each of its 8 cards is held by a pod, and all has happened that is counted.
func TestTheSeriesOfANodeAreFew(t *testing.T) {
	m := NewMetrics()
	var records []binding.Record
	var uses []shares.Use
	health := map[string]string{}
	for i := range 8 {
		pod := fmt.Sprint("pod-", i)
		health[fake.UUID(i)] = gpu.Healthy
		uses = append(uses, shares.Use{GPUUUID: fake.UUID(i), Pod: types.UID(pod), UsedMiB: 1})
		records = append(records, binding.Record{
			Pod: types.UID(pod), Namespace: "team", PodName: pod, Container: "main", Resource: names.ResourceGPU, Devices: []gpu.Device{{UUID: fake.UUID(i)}},
		})
	}
	m.setHealth(&View{Health: health})
	m.setHeldDevices(records)
	m.setPodUse(records, uses)
	m.observeStart(time.Second, nil)
	m.observeStart(time.Second, &binding.Refusal{Reason: binding.Reasons[0]})
	for _, result := range []string{"ok", "error"} {
		m.nodeWrites.WithLabelValues(result).Inc()
	}
	m.registrations.WithLabelValues(names.ResourceGPU).Inc()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := seriesOf(families)
	t.Logf("a node with 8 cards that 8 pods hold has %d series", total)
	if total > mostOfANode || total < 2*len(records) {
		t.Errorf("it has %d series, want at most %d, and two for each of %d pods", total, mostOfANode, len(records))
	}
	m.setHeldDevices(nil)
	m.setPodUse(nil, nil)
	families, err = m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if left, want := seriesOf(families), total-2*len(records)-1; left != want { // gpu_agent_held has one for the resource
		t.Errorf("when the pods are gone there are %d series, want %d", left, want)
	}
}

// seriesOf counts samples as they are scraped.
func seriesOf(families []*dto.MetricFamily) (count int) {
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			count++
			if histogram := metric.GetHistogram(); histogram != nil {
				count += len(histogram.GetBucket()) + 2 // the bucket +Inf, and the sum beside the count
			}
		}
	}
	return count
}

package usage

import (
	"context"
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"g8s.host/gpu-scheduler/pkg/phrase"
)

// Machines is the CPU and memory usage of nodes, as measured by metrics-server.
type Machines struct {
	nodes map[string]corev1.ResourceList
	// unmeasured says why there are no measurements.
	unmeasured phrase.Text
}

// MachineLoad is the CPU and memory usage of some nodes. JSON keys are a contract.
type MachineLoad struct {
	// CPU and Memory are nil if no node was measured.
	CPU    *resource.Quantity `json:"cpu,omitempty"`
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Measured is the number of measured nodes.
	Measured int `json:"measuredNodes"`
	// Unmeasured says why nothing was measured, "" if something was.
	Unmeasured string `json:"unmeasured,omitempty"`

	unmeasuredText phrase.Text
}

// Message says why nothing was measured, in every language.
func (l *MachineLoad) Message() phrase.Text { return l.unmeasuredText }

// machineTimeout is how long to wait for metrics-server.
const machineTimeout = 3 * time.Second

// nodeMetrics contains the used fields of metrics.k8s.io's answer about nodes.
type nodeMetrics struct {
	Items []struct {
		Metadata struct{ Name string }
		Usage    corev1.ResourceList
	}
}

// ReadMachines reads metrics.k8s.io, which metrics-server or a Prometheus adapter serves. A failure is not an error: the result then says why there
// are no measurements.
func ReadMachines(ctx context.Context, api rest.Interface) Machines {
	ctx, cancel := context.WithTimeout(ctx, machineTimeout)
	defer cancel()
	body, err := api.Get().AbsPath("/apis/metrics.k8s.io/v1beta1/nodes").DoRaw(ctx)
	var read nodeMetrics
	if err == nil {
		err = json.Unmarshal(body, &read)
	}
	if err != nil {
		return Machines{unmeasured: whyUnmeasured(err)}
	}
	out := Machines{nodes: make(map[string]corev1.ResourceList, len(read.Items)), unmeasured: phrase.Textf("metrics-server tells nothing of its nodes")}
	for _, item := range read.Items {
		out.nodes[item.Metadata.Name] = item.Usage
	}
	return out
}

func whyUnmeasured(err error) phrase.Text {
	switch {
	case apierrors.IsNotFound(err):
		return phrase.Textf("the cluster has no metrics-server (metrics.k8s.io)")
	case apierrors.IsForbidden(err):
		return phrase.Textf("you may not list nodes of metrics.k8s.io")
	}
	return phrase.Textf("metrics-server (metrics.k8s.io) does not answer: %w", err)
}

// LoadOf returns the usage of the named nodes.
func (m Machines) LoadOf(nodes []string) MachineLoad {
	var cpu, memory resource.Quantity
	out := MachineLoad{}
	for _, name := range nodes {
		used, ok := m.nodes[name]
		if !ok {
			continue
		}
		cpu.Add(*used.Cpu())
		memory.Add(*used.Memory())
		out.Measured++
	}
	if out.Measured == 0 {
		out.unmeasuredText = m.unmeasured
		out.Unmeasured = out.unmeasuredText.String()
		return out
	}
	out.CPU, out.Memory = &cpu, &memory
	return out
}

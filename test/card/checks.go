package card

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

// checked is what gpu-agent check says, as far as it is needed here.
type checked struct {
	Inventory   string            `json:"inventory"`
	Labels      map[string]string `json:"labels"`
	Differences int               `json:"differences"`
	Facts       []struct {
		Of      string `json:"of"`
		Name    string `json:"name"`
		Agent   string `json:"agent"`
		SMI     string `json:"nvidiaSMI"`
		Differs bool   `json:"differs"`
	} `json:"facts"`
}

// check runs gpu-agent check.
func (b *bed) check(t *testing.T) checked {
	t.Helper()
	agent := filepath.Join(filepath.Dir(b.cluster.BinDir()), realnode.AgentName)
	var errors bytes.Buffer
	cmd := exec.CommandContext(t.Context(), agent, "check", "-o", "json")
	cmd.Stderr = &errors
	output, err := cmd.Output()
	var said checked
	if decoded := json.Unmarshal(output, &said); decoded != nil {
		t.Fatalf("gpu-agent check: %v, %v: %s%s", err, decoded, output, &errors)
	}
	return said
}

// metrics reads the agent's metrics of one name.
func (b *bed) metrics(ctx context.Context, name string) []*dto.Metric {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+b.node.AgentAddress+"/metrics", nil)
	if err != nil {
		return nil
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer func() { _ = response.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil || families[name] == nil {
		return nil
	}
	return families[name].Metric
}

func labelOf(metric *dto.Metric, name string) string {
	for _, label := range metric.Label {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

// memoryOf is what the driver says that a pod's processes have of its card, in MiB, by the agent's metric; -1 where it says nothing.
func (b *bed) memoryOf(ctx context.Context, name string) int64 {
	for _, metric := range b.metrics(ctx, "gpu_agent_pod_device_memory_bytes") {
		if labelOf(metric, "pod") == name {
			return int64(metric.GetGauge().GetValue()) >> 20
		}
	}
	return -1
}

// xids are the errors of cards that the agent has counted, by class.
func (b *bed) xids(ctx context.Context) map[string]float64 {
	counts := map[string]float64{}
	for _, metric := range b.metrics(ctx, "gpu_agent_xids_total") {
		counts[labelOf(metric, "class")] = metric.GetCounter().GetValue()
	}
	return counts
}

// logOf returns the lines of a process' log that hold a word.
func (b *bed) logOf(name, word string) []string {
	process := b.cluster.FindProcess(name)
	if process == nil {
		return nil
	}
	output, err := exec.Command("grep", "-F", word, process.LogPath()).Output()
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSpace(string(output)), "\n")
}

func sleep(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(pollEvery):
	}
}

func text(format string, args ...any) string { return fmt.Sprintf(format, args...) }

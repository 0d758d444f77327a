package configcheck

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestWeightsAloneAreToldOf, as what the classic plugin did beside them was in its code.
func TestWeightsAloneAreToldOf(t *testing.T) {
	args := func(args string) string {
		return header + "profiles:\n- schedulerName: a\n- schedulerName: gpu-scheduler\n  pluginConfig: [{name: GPUScore, args: {" + args + "}}]\n"
	}
	const told = "profiles[1]: GPUScore has weights alone"
	for name, tc := range map[string]struct {
		args string
		told bool
	}{
		"weights":                    {"weights: {utilization: 40, typeMatch: 30, topology: 30}", true},
		"one weight":                 {"weights: {utilization: 70}", true},
		"nothing":                    {"", false},
		"a strategy":                 {"strategy: Pack", false},
		"weights and a strategy":     {"weights: {utilization: 40}, strategy: LeastFragmentation", false},
		"weights and a band":         {"weights: {utilization: 40}, targetBand: {low: 50}", false},
		"weights and a watched file": {"weights: {utilization: 40}, policyFile: /etc/policy.yaml", false},
	} {
		t.Run(name, func(t *testing.T) {
			meaning, err := Read(t.Context(), []byte(args(tc.args)))
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(strings.Join(meaning.Warnings, "\n"), told); got != tc.told {
				t.Errorf("told %v, want %v: %q", got, tc.told, meaning.Warnings)
			}
		})
	}
}

// TestThePageScoresAsTheClassicPlugin reads the arguments that the page gives, and has nothing to say of them.
func TestThePageScoresAsTheClassicPlugin(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(page), "### As the classic plugin scores\n")
	_, block, opened := strings.Cut(section, "```yaml\n")
	block, _, closed := strings.Cut(block, "```\n")
	if !ok || !opened || !closed {
		t.Fatal("docs/configuration.md does not say how to score as the classic plugin")
	}
	data, err := os.ReadFile("testdata/classic.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole, _, _ := strings.Cut(string(data), "  pluginConfig:\n")
	whole += "  " + strings.ReplaceAll(strings.TrimSpace(block), "\n", "\n  ") + "\n"
	meaning, err := Read(t.Context(), []byte(whole))
	if err != nil {
		t.Fatalf("%v in\n%s", err, whole)
	}
	if strings.Contains(strings.Join(meaning.Warnings, "\n"), "weights alone") {
		t.Errorf("of what the page gives it warns %q", meaning.Warnings)
	}
	text, err := json.Marshal(meaning.Profiles[0].Args["GPUScore"])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"strategy":"TargetBand"`, `"strategyByJobType":[]`, `"targetBand":{"high":80,"low":60}`, `"weights":{"topology":30,"typeMatch":30,"utilization":40}`,
		`{"accepts":["nvidia-rtx-3080","nvidia-rtx-3090"],"type":"nvidia-tesla-t4"}`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it means %s, want %s", text, want)
		}
	}
}

package command

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"g8s.host/gpu-scheduler/pkg/program"
)

// answer is what a nvidia-smi says of the card of the file.
const answer = `<?xml version="1.0" ?>
<nvidia_smi_log><driver_version>none</driver_version><gpu id="00000000:07:00.0"><product_name>FAKE-40G</product_name><uuid>UUID</uuid>
<minor_number>0</minor_number><mig_mode><current_mig>Disabled</current_mig></mig_mode>
<fb_memory_usage><total>40960 MiB</total><reserved>N/A</reserved></fb_memory_usage></gpu></nvidia_smi_log>`

// runCheck runs gpu-agent check beside a nvidia-smi that gives an answer; "" is none.
func runCheck(t *testing.T, answer string, args ...string) (string, error) {
	t.Helper()
	root := t.TempDir()
	t.Setenv("PATH", root+":/usr/bin:/bin")
	if answer != "" {
		topology := "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-1\t0\n"
		script := "#!/bin/sh\nif [ \"$1\" = topo ]; then printf '" + topology + "'; else cat <<'E'\n" + answer + "\nE\nfi\n"
		if err := os.WriteFile(filepath.Join(root, "nvidia-smi"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cards := filepath.Join(root, "cards.yaml")
	if err := os.WriteFile(cards, []byte("count: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := New(), &bytes.Buffer{}
	cmd.SetOut(out)
	cmd.SetArgs(append([]string{"check", "--nvml=mock", "--mock-config=" + cards, "--runtime-endpoint=unix://" + root + "/none.sock"}, args...))
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestCheck(t *testing.T) {
	same := strings.Replace(answer, "UUID", "GPU-00000000-0000-0000-0000-000000000000", 1)
	out, err := runCheck(t, same)
	if err != nil || !strings.Contains(out, "No differences.") || !strings.Contains(out, "FAKE-40G") {
		t.Errorf("error %v, output\n%s", err, out)
	}
	out, err = runCheck(t, answer)
	if program.CodeOf(err) != 1 || !strings.Contains(out, `DIFFERS: GPU-00000000-0000-0000-0000-000000000000, UUID: the agent says`) {
		t.Errorf("error %v, output\n%s", err, out)
	}
	out, err = runCheck(t, answer, "-o", "json")
	var parsed checked
	if decoded := json.Unmarshal([]byte(out), &parsed); decoded != nil || program.CodeOf(err) != 1 || parsed.Differences != 1 || len(parsed.Facts) < 10 {
		t.Errorf("errors %v and %v, output\n%s", err, decoded, out)
	}
	if _, err = runCheck(t, ""); program.CodeOf(err) != exitCannotCheck || !strings.Contains(err.Error(), "--driver-root") {
		t.Errorf("without nvidia-smi the error is %v", err)
	}
	if _, err = runCheck(t, same, "-o", "yaml"); program.CodeOf(err) != 1 {
		t.Errorf("in a format that there is not the error is %v", err)
	}
}

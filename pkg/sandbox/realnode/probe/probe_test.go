package probe

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAReportSaysWhatAContainerSees(t *testing.T) {
	dev := t.TempDir()
	for _, name := range []string{"nvidia1", "nvidia0", "nvidiactl", "null"} {
		if err := os.WriteFile(filepath.Join(dev, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := inspectContainer("main", []string{"PATH=/", "G8S_GPU_UUIDS=GPU-b,GPU-a", "NVIDIA_VISIBLE_DEVICES=void", "HOME=/NVIDIA_"}, dev)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got.Devices {
		got.Devices[i].Number = ""
	}
	want := Report{
		Name:    "main",
		Env:     map[string]string{"G8S_GPU_UUIDS": "GPU-b,GPU-a", "NVIDIA_VISIBLE_DEVICES": "void"},
		Devices: []Device{{Path: filepath.Join(dev, "nvidia0")}, {Path: filepath.Join(dev, "nvidia1")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"GPU-a", "GPU-b"}, got.UUIDs()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"GPU-a", "GPU-b", "nvidia0", "nvidia1"}, got.gpuNames()); diff != "" {
		t.Error(diff)
	}
	if got := (Report{}).UUIDs(); got != nil {
		t.Errorf("without cards there are %v", got)
	}
}

func TestADeviceThatCannotBeOpenedSaysWhy(t *testing.T) {
	if got := inspectDevice(filepath.Join(t.TempDir(), "nvidia0")); !strings.Contains(got.Error, "no such file") {
		t.Errorf("got %+v", got)
	}
	if got := inspectDevice(os.DevNull); got.Error != "" || got.Number != "1:3" {
		t.Errorf("got %+v", got)
	}
}

// TestACardThatAnotherHasIsAConflict locks twice: locks of files are of the open file, not of the process, so that two in
// one process stand for two containers.
func TestACardThatAnotherHasIsAConflict(t *testing.T) {
	folder := t.TempDir()
	reports := []Report{
		{Env: map[string]string{UUIDVariable: "GPU-a,GPU-b"}},
		{Env: map[string]string{UUIDVariable: "GPU-c,GPU-b"}},
		{Env: map[string]string{UUIDVariable: "GPU-d"}, Devices: []Device{{Path: "/dev/nvidia3"}}},
		{Devices: []Device{{Path: "/dev/nvidia3"}}},
	}
	want := [][]string{nil, {"GPU-b"}, nil, {"nvidia3"}}
	for i := range reports {
		if err := reports[i].lockGPUs(folder); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i], reports[i].Conflicts); diff != "" {
			t.Errorf("report %d (-want +got):\n%s", i, diff)
		}
	}
	if err := reports[0].lockGPUs(filepath.Join(folder, "missing")); err == nil {
		t.Error("a folder that is not there is no error")
	}
}

func TestTheProgramReportsAndEndsAsItIsTold(t *testing.T) {
	folder := t.TempDir()
	t.Setenv(UUIDVariable, "GPU-x")
	var stdout, stderr bytes.Buffer
	code := Main([]string{"report", "--name=n", "--to=" + folder, "--lock=" + folder, "--for=1ms", "--exit=7"}, &stdout, &stderr)
	if code != 7 || stderr.Len() > 0 {
		t.Fatalf("got exit code %d, %s", code, &stderr)
	}
	var got Report
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil || got.Name != "n" || got.Env[UUIDVariable] != "GPU-x" {
		t.Errorf("got %+v, error %v", got, err)
	}
	paths, err := filepath.Glob(filepath.Join(folder, "report-*.json"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("got files %v, error %v", paths, err)
	}
	if data, err := os.ReadFile(paths[0]); err != nil || !bytes.Equal(data, stdout.Bytes()) {
		t.Errorf("the file has %s, error %v", data, err)
	}
	mark := filepath.Join(folder, "first")
	if code := Main([]string{"report", "--for=1ms", "--exit=7", "--first=" + mark}, &stdout, &stderr); code != 7 {
		t.Errorf("the first start ends with exit code %d", code)
	}
	if again, err := startedBefore(mark); err != nil || !again {
		t.Errorf("the second start does not know of the first: %v", err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"nothing":          {args: nil, code: 2, want: "gpu-probe pause"},
		"an unknown word":  {args: []string{"sing"}, code: 2, want: "gpu-probe report"},
		"an unknown flag":  {args: []string{"report", "--zzz"}, code: 2, want: "not defined: -zzz"},
		"a missing folder": {args: []string{"report", "--to=" + folder + "/zzz"}, code: 1, want: "no such file"},
	} {
		stdout.Reset()
		stderr.Reset()
		if code := Main(tc.args, &stdout, &stderr); code != tc.code || !strings.Contains(stderr.String(), tc.want) {
			t.Errorf("%s: got exit code %d, %s", name, code, &stderr)
		}
	}
}

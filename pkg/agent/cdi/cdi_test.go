package cdi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"g8s.host/gpu-scheduler/pkg/agent/binding"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

func record(name string) *binding.Record {
	return &binding.Record{Name: name, Pod: "uid", Namespace: "team", PodName: "one", Container: "main", Resource: "nvidia.com/gpu",
		Devices: []gpu.Device{{UUID: "GPU-a", Index: 1}}, All: []string{"GPU-a"}}
}

var edits = specs.ContainerEdits{DeviceNodes: []*specs.DeviceNode{{Path: "/dev/nvidia1", HostPath: "/dev/null"}}}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	for _, name := range []string{"B", "A"} {
		if err := f.Write(record(name), &edits); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.Path, "nvidia.yaml"), []byte("kind: nvidia.com/gpu"), 0o600); err != nil {
		t.Fatal(err)
	}
	records, err := f.ReadRecords()
	if diff := cmp.Diff([]binding.Record{*record("A"), *record("B")}, records); diff != "" || err != nil {
		t.Errorf("error %v, records (-want +got):\n%s", err, diff)
	}
	for range 2 { // the second time there is none
		if err := f.Remove("A"); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"g8s.host-gpu-B.json", "nvidia.yaml"}, names(t, f.Path)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestTheSameAgain leaves the file as it is: the runtime would read all specs again.
func TestTheSameAgain(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	var before os.FileInfo
	for range 2 {
		if err := f.Write(record("A"), &edits); err != nil {
			t.Fatal(err)
		}
		now, err := os.Stat(filepath.Join(f.Path, "g8s.host-gpu-A.json"))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !os.SameFile(before, now) {
			t.Error("the file was written again")
		}
		before = now
	}
}

// TestARecordThatIsNotRead: what a file holds that cannot be read is not known, so it must not be overlooked.
func TestARecordThatIsNotRead(t *testing.T) {
	good := Folder{Path: t.TempDir()}
	if err := good.Write(record("A"), &edits); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(good.Path, "g8s.host-gpu-A.json"))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"an empty file": "", "half a file": string(whole[:len(whole)/2]), "no record": `{"cdiVersion":"0.6.0","kind":"g8s.host/gpu"}`,
		"the record of another": strings.ReplaceAll(string(whole), `\"name\":\"A\"`, `\"name\":\"B\"`),
		"a record of no pod":    strings.ReplaceAll(string(whole), `\"pod\":\"uid\"`, `\"pod\":\"\"`),
	} {
		t.Run(name, func(t *testing.T) {
			f := Folder{Path: t.TempDir()}
			if err := os.WriteFile(filepath.Join(f.Path, "g8s.host-gpu-A.json"), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if records, err := f.ReadRecords(); err == nil || !strings.Contains(err.Error(), "g8s.host-gpu-A.json") {
				t.Errorf("records %v, error %v; want the file named", records, err)
			}
		})
	}
}

// TestAFileAppearsWhole: what a writer leaves that was killed is no spec, and goes with the next agent.
func TestAFileAppearsWhole(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	if err := os.WriteFile(filepath.Join(f.Path, "g8s.host-gpu-A.json.new"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if records, err := f.ReadRecords(); err != nil || len(records) > 0 {
		t.Errorf("records %v, error %v; want none", records, err)
	}
	if err := f.SweepTemporary(); err != nil || len(names(t, f.Path)) > 0 {
		t.Errorf("error %v, files %v; want none", err, names(t, f.Path))
	}
}

func TestNamesThatAreNoFiles(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	for _, name := range []string{"", "../x", "a/b", ".hidden", strings.Repeat("x", 64)} {
		if err := f.Write(record(name), &edits); err == nil {
			t.Errorf("%q was written", name)
		}
	}
}

// TestVersions: a runtime refuses specs of a version that it does not know, so the oldest that will do is written.
func TestVersions(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	groups := edits
	groups.AdditionalGIDs = []uint32{44}
	for version, edits := range map[string]*specs.ContainerEdits{`"cdiVersion": "0.6.0"`: &edits, `"cdiVersion": "0.7.0"`: &groups} {
		if err := f.Write(record("A"), edits); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(f.Path, "g8s.host-gpu-A.json"))
		if err != nil || !strings.Contains(string(data), version) {
			t.Errorf("error %v; want %s in:\n%s", err, version, data)
		}
	}
}

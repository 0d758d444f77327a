package render

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"g8s.host/gpu-scheduler/pkg/workdir"
	"g8s.host/gpu-scheduler/pkg/workload"
)

const sending = `kind: training
job: {name: sft, workdir: .}
environment: {image: "pytorch:2", command: [python, train.py]}
resources: {gpu: 2, cpu: 8, memory: 32Gi}
`

func sent(t *testing.T, source string, data []byte) (*batchv1.Job, []*corev1.ConfigMap) {
	t.Helper()
	docs, problems := workload.Parse("t.yaml", []byte(source))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	docs[0].Upload = workload.NewUpload(strings.Repeat("ab", 32), data)
	objects, _, err := Objects(docs[0], Options{Namespace: "team"})
	if err != nil {
		t.Fatal(err)
	}
	var parts []*corev1.ConfigMap
	for _, object := range objects {
		if part, ok := object.(*corev1.ConfigMap); ok {
			parts = append(parts, part)
		}
	}
	return objects[0].(*batchv1.Job), parts
}

// TestAFolderIsSentInParts: each is less than a ConfigMap may have, and all are the archive.
func TestAFolderIsSentInParts(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), workload.UploadPart/4)
	job, parts := sent(t, sending, data)
	var joined []byte
	for i, part := range parts {
		if want := fmt.Sprintf("sft-workdir-abababababababab-%d", i); part.Name != want || part.Namespace != "team" || !*part.Immutable {
			t.Errorf("part %d is %s in namespace %q, immutable %v; want %s in team, true", i, part.Name, part.Namespace, *part.Immutable, want)
		}
		if len(part.BinaryData["part"]) >= 1<<20 {
			t.Errorf("part %d has %d bytes, more than the API server takes", i, len(part.BinaryData["part"]))
		}
		joined = append(joined, part.BinaryData["part"]...)
	}
	if len(parts) != 3 || !bytes.Equal(joined, data) {
		t.Errorf("got %d parts of %d bytes together, want 3 of %d", len(parts), len(joined), len(data))
	}
	var mounted []string
	for _, volume := range job.Spec.Template.Spec.Volumes {
		if volume.Projected != nil {
			for _, source := range volume.Projected.Sources {
				mounted = append(mounted, source.ConfigMap.Items[0].Path+" "+source.ConfigMap.Name)
			}
		}
	}
	want := []string{"000 " + parts[0].Name, "001 " + parts[1].Name, "002 " + parts[2].Name}
	if diff := cmp.Diff(want, mounted); diff != "" {
		t.Errorf("what the pod sees (-want +got):\n%s", diff)
	}
}

// TestTheUnpackingAsksForNothingMore than the job: neither GPUs, nor more than the pod gets anyway.
func TestTheUnpackingAsksForNothingMore(t *testing.T) {
	job, _ := sent(t, sending, []byte("x"))
	spec := job.Spec.Template.Spec
	main, unpack := spec.Containers[0], spec.InitContainers[0]
	want := corev1.ResourceList{corev1.ResourceCPU: main.Resources.Limits[corev1.ResourceCPU], corev1.ResourceMemory: main.Resources.Limits[corev1.ResourceMemory]}
	if diff := cmp.Diff(want, unpack.Resources.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if main.WorkingDir != workload.WorkdirPath || unpack.Image != main.Image {
		t.Errorf("the program starts in %q, and %q unpacks; want %s and the job's image", main.WorkingDir, unpack.Image, workload.WorkdirPath)
	}
}

// TestAFolderThatWasNotSent is no job without its code.
func TestAFolderThatWasNotSent(t *testing.T) {
	docs, _ := workload.Parse("t.yaml", []byte(sending))
	var unsent *UnsentError
	if _, _, err := Objects(docs[0], Options{}); !errors.As(err, &unsent) {
		t.Errorf("got error %v, want an UnsentError", err)
	}
	if _, _, err := Objects(docs[0].WithoutUpload(), Options{}); err != nil {
		t.Errorf("got error %v of who only asks where it would run", err)
	}
}

// unpackWith runs the script of the container over parts with the programs of a PATH, and returns the folder.
func unpackWith(t *testing.T, path string, parts ...[]byte) (folder, output string, err error) {
	t.Helper()
	job, _ := sent(t, sending, []byte("x"))
	from, folder := t.TempDir(), t.TempDir()
	for i, part := range parts {
		if err := os.WriteFile(filepath.Join(from, fmt.Sprintf("%03d", i)), part, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := slices.Concat(job.Spec.Template.Spec.InitContainers[0].Command[:4], []string{from, folder})
	shell := "/bin/sh"
	if at := filepath.Join(path, "sh"); exists(at) {
		shell = at
	}
	run := exec.CommandContext(t.Context(), shell, command[1:]...)
	run.Env = []string{"PATH=" + path}
	text, err := run.CombinedOutput()
	return folder, string(text), err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// tools are the shells and tars that images have: those of this machine, and the two that are one program for all.
var tools = []string{"", "busybox", "toybox"}

// pathOf is a PATH with what images of a program have: its tar and cat, its sh if it is one, and the gzip of this machine where that
// is wanted. Without a program it is the PATH of this machine.
func pathOf(t *testing.T, program string, gzip bool) string {
	t.Helper()
	if program == "" {
		return os.Getenv("PATH")
	}
	at, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("NOT TESTED: %s is not on this machine: apt-get install %s", program, program)
	}
	applets := map[string]string{"tar": at, "cat": at, "sh": at}
	if program == "toybox" { // which has no shell that anybody ships
		applets["sh"] = "/bin/sh"
	}
	if compressor, err := exec.LookPath("gzip"); gzip && err == nil {
		applets["gzip"] = compressor
	}
	folder := t.TempDir()
	for applet, at := range applets {
		if err := os.Symlink(at, filepath.Join(folder, applet)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// TestTheScriptUnpacks runs what the container runs, with the shells and the tars of images, on what a folder becomes: names of
// any length and in any script, files that can be run, and links, also such as lead out.
func TestTheScriptUnpacks(t *testing.T) {
	long := strings.Repeat("d", 60) + "/" + strings.Repeat("e", 90) + "/" + strings.Repeat("f", 120) + ".py"
	files := fstest.MapFS{
		"lib/run.sh": {Data: []byte("echo hi"), Mode: 0o755}, "数据/训练.py": {Data: []byte("x"), Mode: 0o644}, long: {Data: []byte("y"), Mode: 0o644},
	}
	links := map[string]string{"link": "lib/run.sh", "data": "/datasets", "up": "../../etc", "far": "/" + strings.Repeat("g", 150), "链接": "数据"}
	for name, target := range links {
		files[name] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink | 0o777}
	}
	data := packed(t, files)
	for _, program := range tools {
		t.Run("tar of "+program, func(t *testing.T) {
			folder, output, err := unpackWith(t, pathOf(t, program, true), data[:10], data[10:])
			if err != nil {
				t.Fatalf("%v: %s", err, output)
			}
			compareFolder(t, folder, files, links)
		})
	}
}

// packed is the archive of files.
func packed(t *testing.T, files fstest.MapFS) []byte {
	t.Helper()
	listing, err := workdir.List(workdir.Folder{Files: files}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := workdir.Pack(files, listing, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return archive.Data
}

// compareFolder compares what was unpacked with what was packed.
func compareFolder(t *testing.T, folder string, files fstest.MapFS, links map[string]string) {
	t.Helper()
	for name, want := range files {
		at := filepath.Join(folder, name)
		if links[name] != "" {
			if got, err := os.Readlink(at); got != links[name] {
				t.Errorf("link %s leads to %q (%v), want %q", name, got, err, links[name])
			}
			continue
		}
		got, err := os.ReadFile(at)
		if err != nil || !bytes.Equal(got, want.Data) {
			t.Errorf("%s has %q (%v), want %q", name, got, err, want.Data)
		}
		if info, err := os.Stat(at); err == nil && (info.Mode()^want.Mode)&0o100 != 0 {
			t.Errorf("%s has the mode %v, want %v", name, info.Mode(), want.Mode)
		}
	}
}

// TestTheScriptFails where it cannot unpack, and says why: a program must not start without its code.
func TestTheScriptFails(t *testing.T) {
	whole := packed(t, fstest.MapFS{"a": {Data: []byte(strings.Repeat("a", 1000)), Mode: 0o644}})
	for _, program := range tools {
		t.Run("half an archive by tar of "+program, func(t *testing.T) {
			if _, output, err := unpackWith(t, pathOf(t, program, true), whole[:len(whole)/2]); err == nil {
				t.Errorf("got no error, and %q", output)
			}
		})
	}
	t.Run("no tar", func(t *testing.T) {
		if _, output, err := unpackWith(t, "/none", whole); err == nil || !strings.Contains(output, "needs tar in the image") {
			t.Errorf("got error %v and %q, want one that says so", err, output)
		}
	})
	t.Run("a tar that has no gzip, and calls that a success", func(t *testing.T) {
		if _, output, err := unpackWith(t, pathOf(t, "toybox", false), whole); err == nil || !strings.Contains(output, "may need gzip in the image") {
			t.Errorf("got error %v and %q, want one that says so", err, output)
		}
	})
}

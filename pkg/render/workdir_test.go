package render

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

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
	if _, _, err := Objects(docs[0].Unsent(), Options{}); err != nil {
		t.Errorf("got error %v of who only asks where it would run", err)
	}
}

// unpackWith runs the script of the container over parts, and returns the folder.
func unpackWith(t *testing.T, env []string, parts ...[]byte) (folder, output string, err error) {
	t.Helper()
	job, _ := sent(t, sending, []byte("x"))
	from, folder := t.TempDir(), t.TempDir()
	for i, part := range parts {
		if err := os.WriteFile(filepath.Join(from, fmt.Sprintf("%03d", i)), part, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	command := slices.Concat(job.Spec.Template.Spec.InitContainers[0].Command[:4], []string{from, folder})
	run := exec.CommandContext(t.Context(), "/bin/sh", command[1:]...)
	run.Env = env
	text, err := run.CombinedOutput()
	return folder, string(text), err
}

func archive(t *testing.T, headers ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	files := tar.NewWriter(compressed)
	for _, header := range headers {
		header.Size = int64(len(header.Uname)) // its content
		content := header.Uname
		header.Uname = ""
		if err := files.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestTheScriptUnpacks runs what the container runs, with the shell and the tar of this machine.
func TestTheScriptUnpacks(t *testing.T) {
	data := archive(t,
		&tar.Header{Name: "lib/", Typeflag: tar.TypeDir, Mode: 0o755},
		&tar.Header{Name: "lib/run.sh", Typeflag: tar.TypeReg, Mode: 0o755, Uname: "echo hi"},
		&tar.Header{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "lib/run.sh"},
		&tar.Header{Name: "data", Typeflag: tar.TypeSymlink, Linkname: "/datasets"},
	)
	folder, output, err := unpackWith(t, os.Environ(), data[:10], data[10:])
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	info, err := os.Stat(filepath.Join(folder, "lib", "run.sh"))
	if err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("lib/run.sh: %v, %v; want a file that can be run", info, err)
	}
	for link, want := range map[string]string{"link": "lib/run.sh", "data": "/datasets"} {
		if got, err := os.Readlink(filepath.Join(folder, link)); got != want {
			t.Errorf("link %s leads to %q (%v), want %q", link, got, err, want)
		}
	}
}

// TestTheScriptFails where it cannot unpack, and says why: a program must not start without its code.
func TestTheScriptFails(t *testing.T) {
	whole := archive(t, &tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644, Uname: strings.Repeat("a", 1000)})
	if _, output, err := unpackWith(t, []string{"PATH=/none"}, whole); err == nil || !strings.Contains(output, "needs tar in the image") {
		t.Errorf("without tar: got error %v and %q, want one that says so", err, output)
	}
	if _, output, err := unpackWith(t, os.Environ(), whole[:len(whole)/2]); err == nil {
		t.Errorf("of half an archive: got no error, and %q", output)
	}
}
